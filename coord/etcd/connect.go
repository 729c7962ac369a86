package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
)

// Connect makes an etcd client of its own, checks that the service answers and that the user may use the root, and
// returns a coord.Client on it. Closing the latter closes everything. ctx governs only the check.
//
// A password or a token goes to the service as it is. So without TLS, or with endpoints that begin with http://, for which
// the client library ignores TLS, it is refused unless all endpoints are on this machine, by their addresses; see
// [WithCleartextPassword]. New takes a client as it is.
//
// What cfg leaves open it sets as locks need it: a dead connection is noticed within 13 s (requests notice it sooner),
// a lost one is opened again within 2 s, and the client library logs nothing unless cfg has a Logger.
func Connect(ctx context.Context, cfg clientv3.Config, opts ...Option) (*coord.Client, error) {
	c, keys, err := configure(opts)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("turnwise: etcd: connect: %w", err)
	}
	if to, clear := sendsInClear(cfg); clear && !c.cleartext {
		return nil, fmt.Errorf("turnwise: etcd: connect: the password or token would go to %s in clear: use TLS with endpoints that "+
			"do not begin with http://, or WithCleartextPassword if nobody can listen on the way", to)
	}
	client, err := dial(ctx, cfg)
	if err != nil {
		return nil, connectError(ctx, cfg, err)
	}
	d, err := newService(client, c, keys)
	if err != nil {
		client.Close()
		return nil, err
	}
	d.release = client.Close
	if err := d.probe(ctx); err != nil {
		client.Close()
		return nil, connectError(ctx, cfg, err)
	}
	return coord.NewClient(d, c.client...), nil
}

// sendsInClear reports whether a secret would leave this machine without encryption, and for where.
func sendsInClear(cfg clientv3.Config) (to string, _ bool) {
	if cfg.Password == "" && cfg.Token == "" {
		return "", false
	}
	for i, e := range cfg.Endpoints {
		scheme, host, named := strings.Cut(e, "://")
		if !named {
			scheme, host = "", e
		}
		scheme = strings.ToLower(scheme)
		if i == 0 && (scheme == "https" || cfg.TLS != nil && scheme != "http") {
			return "", false // the library goes by the first one
		}
		switch {
		case strings.HasPrefix(e, "unix:"), strings.HasPrefix(e, "unixs:"):
		case scheme != "" && scheme != "http" && scheme != "https", !onThisMachine(host):
			return e, true
		}
	}
	return "", false
}

// onThisMachine reports whether nobody can listen on the way to an address.
func onThisMachine(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// dial makes the client. With a user name, that already talks to the service, so it must end with ctx.
func dial(ctx context.Context, cfg clientv3.Config) (*clientv3.Client, error) {
	if cfg.DialKeepAliveTime == 0 {
		cfg.DialKeepAliveTime = 10 * time.Second
	}
	if cfg.DialKeepAliveTimeout == 0 {
		cfg.DialKeepAliveTimeout = 3 * time.Second
	}
	if cfg.Logger == nil && cfg.LogConfig == nil {
		cfg.Logger = zap.NewNop()
	}
	// The library's own pauses grow to two minutes, which no session would survive. The caller's options come later and
	// win.
	reconnect := backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}
	cfg.DialOptions = append([]grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           reconnect,
		MinConnectTimeout: 3 * time.Second,
	})}, cfg.DialOptions...)

	base := cfg.Context
	if base == nil {
		base = context.Background()
	}
	life, cancel := context.WithCancelCause(base)
	cfg.Context = life
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	client, err := clientv3.New(cfg)
	if !stop() && err == nil {
		client.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel(err)
		return nil, err
	}
	context.AfterFunc(client.Ctx(), func() { cancel(context.Canceled) })
	return client, nil
}

// probe reads a key that only this driver uses: it needs a majority, a password and the permission.
func (d *service) probe(ctx context.Context) error {
	return d.persist(ctx, func(ctx context.Context) error {
		_, err := d.kv.Get(ctx, d.keys.sessions(), clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
		return err
	})
}

func connectError(ctx context.Context, cfg clientv3.Config, err error) error {
	switch {
	case errors.Is(err, driver.ErrDenied):
		err = &denied{err}
	case classify(err) == denial:
		err = fmt.Errorf("%w: %w", coord.ErrDenied, err)
	case ctx.Err() != nil:
		if !errors.Is(err, ctx.Err()) { // what ctx ended looks different
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		err = fmt.Errorf("%w: is it running there? %w", coord.ErrUnavailable, err)
	}
	return &shown{fmt.Errorf("turnwise: etcd: connect to %s: %w", strings.Join(cfg.Endpoints, ", "), err)}
}

// shown is an error with words of the service in it, whose text is safe to show all the same.
type shown struct{ error }

func (s *shown) Error() string { return coord.Printable(s.error.Error()) }
func (s *shown) Unwrap() error { return s.error }

// denied is coord.ErrDenied too, which has the same words.
type denied struct{ error }

func (d *denied) Unwrap() []error { return []error{coord.ErrDenied, d.error} }
