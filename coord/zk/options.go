package zk

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

const (
	defaultTTL  = 10 * time.Second
	defaultRoot = "/turnwise"

	// Below this a garbage collection on either side would cost the session.
	minTTL = 200 * time.Millisecond

	// Nobody waits longer for a holder that has died. The service would take more than 24.8 days for a negative number.
	maxTTL = 24 * time.Hour
)

// Option sets up a driver. A nil Option changes nothing.
type Option func(*config)

type config struct {
	servers   []string
	ttl       time.Duration
	root      string // without a slash at its end: "" is the root of the service
	chroot    string // the path after the last server in the list
	auth      []credential
	acl       []gozk.ACL
	trusted   []gozk.ACL // what acl means at the service
	openToAll bool       // everybody may do everything with our nodes, reading included
	unasked   bool       // and nobody asked for that
	cleartext bool
	tls       *tls.Config
	dial      func(ctx context.Context, network, address string) (net.Conn, error) // nil: as net.Dialer does
	log       *slog.Logger
	way       Names
	client    []coord.Option

	// Always the same, except in tests.
	lookup     func(ctx context.Context, name string) (addresses []string, err error)
	connectFor time.Duration
	lineBytes  int64 // how many Line keeps
	maxIdle    int
}

type credential struct {
	scheme string
	data   []byte
}

// WithTTL sets the timeout of sessions: how long the service keeps the nodes of a process that it hears nothing from.
// The default is 10 s, and more than a day is refused. The service has the last word; by default it allows 2 to 20 of its
// ticks.
func WithTTL(d time.Duration) Option { return func(c *config) { c.ttl = d } }

// WithRoot puts all lines below a path. The default is "/turnwise", and "/" means none: by default line "a/b" is the
// directory /turnwise/a/b. The path is created if it is missing. A root within another is a part of it: line x of root /a/b
// is line b/x of root /a.
func WithRoot(path string) Option { return func(c *config) { c.root = path } }

// WithDigestAuth authenticates with a name and a password. ZooKeeper accepts any pair; what counts is whether the nodes are
// open to it. Everything that is created belongs to this user alone, unless WithACL says otherwise. A root or a line that
// is open to others is refused (coord.ErrDenied), and the root stays even when it is empty.
//
// The password is sent as it is. Without WithTLS, or with one that checks no certificate, the option is therefore refused,
// unless all servers are on this machine, judging by their addresses, and there is no WithDialer; see WithCleartextPassword.
func WithDigestAuth(user, password string) Option {
	return func(c *config) { c.auth = append(c.auth, credential{"digest", []byte(user + ":" + password)}) }
}

// WithCleartextPassword lets WithDigestAuth send the password over connections that are not encrypted, or to a server whose
// certificate nobody checks: anyone who can listen on the way, or answer in the server's place, then has it. The logger gets a
// warning.
func WithCleartextPassword() Option { return func(c *config) { c.cleartext = true } }

// WithACL sets the access rights of everything that is created: nodes and directories. To stand in the lines, a client
// needs READ, CREATE and DELETE on the directories, and READ on the others' nodes; on its own node it needs no right. To
// change what that node says, as an election does, or its kind, as a Downgrade does, it needs WRITE on it.
//
// Directories that already exist must not give CREATE, DELETE or ADMIN to anybody else. So name everybody who should have
// these rights, such as the operator who made the root. For a client certificate, give its name (scheme x509): "auth" would
// accept any certificate there.
func WithACL(acl ...gozk.ACL) Option { return func(c *config) { c.acl = acl } }

// WithTLS encrypts the connections. An empty ServerName is taken from each server's address.
func WithTLS(cfg *tls.Config) Option { return func(c *config) { c.tls = cfg } }

// WithDialer makes connections with a function of your own, such as that of a SOCKS proxy or a tunnel. The function gets
// "tcp" and a server's address as given to New. A name is not looked up here, so it may mean something only at the other
// end. The function must return when ctx ends. WithTLS works on what it returns.
//
// The driver cannot know where it leads, so WithDigestAuth then needs WithTLS or WithCleartextPassword, whatever the
// addresses are.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return func(c *config) { c.dial = dial }
}

// WithLogger logs what sessions do and, at debug level, what the client library does. Without it nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// WithNames names the nodes as another tool names its own, so that both can stand in the same lines; set WithRoot to
// where the other tool keeps its paths.
func WithNames(n Names) Option { return func(c *config) { c.way = n } }

// WithClient is for Connect, which passes the options on to coord.NewClient.
func WithClient(opts ...coord.Option) Option {
	return func(c *config) { c.client = append(c.client, opts...) }
}

// maxIdle is how many watches may be kept for nobody.
const maxIdle = 1000

func configure(servers []string, opts []Option) (*config, error) {
	c := &config{
		ttl: defaultTTL, root: defaultRoot, log: slog.New(slog.DiscardHandler),
		lookup: net.DefaultResolver.LookupHost, connectFor: driverkit.ConnectFor, lineBytes: driverkit.LineBytes, maxIdle: maxIdle,
	}
	for _, o := range opts {
		if o != nil {
			o(c)
		}
	}
	if err := c.addServers(servers); err != nil {
		return nil, err
	}
	if err := cmp.Or(c.checkServers(), c.placeRoot()); err != nil {
		return nil, err
	}
	switch {
	case c.ttl < minTTL || c.ttl > maxTTL:
		return nil, invalid("WithTTL(%v): it must be from %v to %v; a bare number counts nanoseconds", c.ttl, minTTL, maxTTL)
	case c.way < 0 || c.way > Kazoo:
		return nil, invalid("there are no names of type %d: use zk.Curator or zk.Kazoo", c.way)
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if err := c.checkPassword(); err != nil {
		return nil, err
	}
	c.unasked = c.acl == nil && len(c.auth) == 0
	if c.acl == nil {
		c.acl = gozk.WorldACL(gozk.PermAll)
		if len(c.auth) > 0 {
			c.acl = gozk.AuthACL(gozk.PermAll)
		}
	}
	c.openToAll = slices.Equal(c.acl, gozk.WorldACL(gozk.PermAll))
	c.trust()
	return c, nil
}

// checkPassword looks where WithDigestAuth sends its password.
func (c *config) checkPassword() error {
	if len(c.auth) == 0 {
		return nil
	}
	for _, s := range c.servers {
		if c.dial != nil {
			s = "where WithDialer leads for " + s
		}
		if err := driverkit.CheckPassword(s, c.tls, c.cleartext, c.log); err != nil {
			return invalid("WithDigestAuth: %w", err)
		}
	}
	return nil
}

// addServers takes addresses one by one, or several in one string separated by commas, perhaps with a path, as in
// ZooKeeper's own connect strings: "zk1:2181,zk2:2181/app".
func (c *config) addServers(servers []string) error {
	for i, s := range servers {
		s = strings.TrimSpace(s)
		if hosts, path, ok := strings.Cut(s, "/"); ok {
			if i < len(servers)-1 {
				return invalid("server %q has a path, which only the last one may have: use WithRoot", s)
			}
			s, c.chroot = hosts, "/"+path
		}
		for host := range strings.SplitSeq(s, ",") {
			if host = strings.TrimSpace(host); host == "" {
				return invalid("the list of servers %q has an empty address", servers)
			}
			c.servers = append(c.servers, host)
		}
	}
	if len(c.servers) == 0 {
		return invalid("the list of servers is empty: give at least one host:port")
	}
	c.servers = slices.Compact(gozk.FormatServers(c.servers))
	return nil
}

// checkServers refuses what nobody could dial. What WithDialer can reach is its own affair.
func (c *config) checkServers() error {
	for _, s := range c.servers {
		if err := driverkit.CheckAddress(s); err != nil && c.dial == nil {
			return invalid("%w", err)
		}
	}
	return nil
}

// rootDir is the directory that all lines are below.
func (c *config) rootDir() string { return cmp.Or(c.root, "/") }

func (c *config) placeRoot() error {
	c.root = strings.TrimSuffix(c.chroot, "/") + strings.TrimSuffix(c.root, "/")
	if c.root == "" {
		return nil
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(c.root, "/"), "/") {
		if c.root[0] != '/' || segment == "" || segment == "." || segment == ".." || escape(segment) != segment {
			return invalid("the root %q is no ZooKeeper path such as /app/locks", c.root)
		}
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("turnwise: zk: %w: "+format, append([]any{coord.ErrInvalid}, args...)...)
}
