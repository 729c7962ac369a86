package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/lines"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/serve"
	"github.com/turnwise/turnwise/coord"
)

func serveCommand(s *service) *cobra.Command {
	var at place
	var tokenFile string
	c := &cobra.Command{
		Use:   "serve [PREFIX]",
		Short: "Show all lines on a page for browsers, and to programs",
		Long: `Show all lines, or those whose names begin with PREFIX, on a page for browsers: who has them, who waits, who waits for whom. It
changes by itself. Beside it: GET /v1/lines, /v1/lines/NAME and /v1/check?line=NAME&token=N answer with JSON, /metrics is for
Prometheus. It only reads. The service is asked once for all who look, and nothing while nobody does.

On 127.0.0.1 all users of this machine may look, unless --token-file says what they must have: the file's first line. Any address
that is not of the loopback interface needs one. On a --socket only you may look. If the service is a directory that nobody else
may enter (mode 0700), a socket is the default; look with curl --unix-socket PATH http://localhost/v1/lines, or with a browser
after you have given --http and --token-file.`,
		Example: `  turnwise serve
  turnwise serve --socket ~/turnwise.sock
  turnwise serve --http 10.0.0.5:4646 --token-file /run/secrets/turnwise shop/`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := interruptible()
			defer stop()
			token, err := readToken(tokenFile)
			if err != nil {
				return err
			}
			if err := at.choose(s, c.Flags(), token != ""); err != nil {
				return err
			}
			defer at.leave()
			return s.stay(ctx, func(ctx context.Context, c *coord.Client, service string) error {
				l, err := at.listen()
				if err != nil {
					return err
				}
				fmt.Println(at.shown(l))
				return serve.New(lines.New(c, service, strings.Join(args, ""), lines.Few), token).Serve(ctx, l)
			})
		},
	}
	c.Flags().StringVar(&at.address, "http", "127.0.0.1:4646", "the `address` to listen on; port 0 takes any")
	c.Flags().StringVar(&at.socket, "socket", "", "listen on a Unix socket at this `path`, for you alone")
	c.Flags().StringVar(&tokenFile, "token-file", "", "only those may look who have the token in this `file`")
	return c
}

// leastToken is how many characters a token must have, since anybody can guess as often as they like.
const leastToken = 16

func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fail(codeConfig, "--token-file: %w", err)
	}
	token, _, _ := strings.Cut(string(text), "\n")
	token = strings.TrimSpace(token)
	switch {
	case len(token) < leastToken:
		return "", fail(codeConfig, "--token-file %s: its first line has %d characters: make it %d at least",
			coord.Printable(path), len(token), leastToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fail(codeConfig, "--token-file %s: its first line has a character that no header can carry: use letters and digits",
			coord.Printable(path))
	}
	return token, nil
}

// place is where the page is to be seen: on a socket, or else at an address.
type place struct {
	address, socket string

	tcp  *net.TCPAddr
	unix *net.UnixListener
}

// choose finds what is wrong with the place. A socket is there from now on.
func (p *place) choose(s *service, f *pflag.FlagSet, token bool) (err error) {
	switch {
	case f.Changed("socket") && f.Changed("http"):
		return usage("--socket and --http exclude each other")
	case f.Changed("socket") && p.socket == "":
		return usage("--socket needs a path")
	case !f.Changed("socket") && !f.Changed("http") && !token:
		to, _, err := s.find()
		if err != nil {
			return err
		}
		if to.Private() { // as on the directory itself, nobody else is to look
			if p.socket, err = ownSocket(to.ID()); err != nil {
				return fail(codeUnusable, "no socket for you alone: say where, with --socket or --http: %w", err)
			}
		}
	}
	if p.socket != "" {
		p.unix, err = listenPrivately(p.socket)
		return err
	}
	p.tcp, err = listenAt(p.address, token)
	return err
}

func (p *place) listen() (net.Listener, error) {
	if p.unix != nil {
		return p.unix, nil
	}
	l, err := net.ListenTCP("tcp", p.tcp)
	if err != nil {
		return nil, notListening(p.address, err)
	}
	return l, nil
}

func (p *place) shown(l net.Listener) string {
	if p.unix != nil {
		return "unix:" + coord.Printable(p.socket)
	}
	return "http://" + l.Addr().String()
}

// leave removes the socket.
func (p *place) leave() {
	if p.unix != nil {
		p.unix.Close()
	}
}

// listenAt resolves an address. Without a token it must be one of the loopback interface.
func listenAt(address string, token bool) (*net.TCPAddr, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	switch {
	case err != nil:
		return nil, usage("--http %s: write an address and a port, such as 127.0.0.1:4646", coord.Printable(address))
	case !token && !at.IP.IsLoopback():
		return nil, usage("--http %s can be reached from other machines: give --token-file, too, or listen on 127.0.0.1",
			coord.Printable(address))
	}
	return at, nil
}

func notListening(address string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fail(codeUnusable, "--http %s: something listens there already: take another port", coord.Printable(address))
	case errors.Is(err, syscall.EACCES):
		return fail(codeUnusable, "--http %s: you may not listen there: take a port from 1024 on", coord.Printable(address))
	}
	return fail(codeUnusable, "--http %s: %w", coord.Printable(address), err)
}
