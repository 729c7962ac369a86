//go:build linux || darwin

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

	"github.com/turnwise/turnwise/cmd/turnwise/internal/lines"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/serve"
	"github.com/turnwise/turnwise/coord"
)

func serveCommand(s *service) *cobra.Command {
	var address, tokenFile string
	c := &cobra.Command{
		Use:   "serve [PREFIX]",
		Short: "Show all lines on a page for browsers, and to programs",
		Long: `Show all lines, or those whose names begin with PREFIX, on a page for browsers: who has them, who waits, who waits for whom. It
changes by itself. Beside it: GET /v1/lines, /v1/lines/NAME and /v1/check?line=NAME&token=N answer with JSON, /metrics is for
Prometheus. It only reads. The service is asked once for all who look, and nothing while nobody does.

Any address that is not of the loopback interface needs --token-file: the file's first line is what all who look must have.`,
		Example: `  turnwise serve
  turnwise serve --http 10.0.0.5:4646 --token-file /run/secrets/turnwise shop/`,
		Args: atMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			ctx, stop := interruptible()
			defer stop()
			token, err := readToken(tokenFile)
			if err != nil {
				return err
			}
			listen, err := listenAt(address, token != "")
			if err != nil {
				return err
			}
			return s.stay(ctx, func(ctx context.Context, c *coord.Client, at string) error {
				l, err := net.ListenTCP("tcp", listen)
				if err != nil {
					return notListening(address, err)
				}
				fmt.Println("http://" + l.Addr().String())
				return serve.New(lines.New(c, at, strings.Join(args, ""), lines.Few), token).Serve(ctx, l)
			})
		},
	}
	c.Flags().StringVar(&address, "http", "127.0.0.1:4646", "the `address` to listen on; port 0 takes any")
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
