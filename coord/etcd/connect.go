package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// Connect makes its own etcd client, checks that the service answers and that the user may use the root, and returns a
// coord.Client on it. Closing the coord.Client closes everything. ctx governs only the check, which goes on while the
// service is out of reach: until ctx ends or, if ctx has no deadline, for 30 s. The error names what was tried and what is
// in the way, which the logger of WithLogger reports meanwhile. The logger also gets a warning if etcd has no users, since
// everybody has all rights then.
//
// A password or a token is sent as it is. It is therefore refused without TLS, with TLS that checks no certificate, or with
// endpoints that begin with http://, for which the client library ignores TLS, unless all endpoints are on this machine,
// judging by their addresses; see [WithCleartextPassword]. New takes a client as it is.
//
// What cfg leaves open, Connect sets as locks need it: a dead connection is noticed within 13 s (requests notice it
// sooner), a lost one is opened again within 2 s, no answer is longer than 128 MiB, and the client library logs nothing unless
// cfg has a Logger.
func Connect(ctx context.Context, cfg clientv3.Config, opts ...Option) (*coord.Client, error) {
	c, keys, err := configure(opts)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(coord.CheckStrength(strength, c.client...), ctx.Err()); err != nil {
		return nil, fmt.Errorf("turnwise: etcd: connect: %w", err)
	}
	if err := cmp.Or(checkEndpoints(&cfg), c.checkPassword(cfg)); err != nil {
		return nil, fmt.Errorf("turnwise: etcd: connect: %w: %w", coord.ErrInvalid, err)
	}
	ctx, cancel := driverkit.BoundConnect(ctx)
	defer cancel()
	tells := inquire(ctx, cfg, c.log)
	client, err := dial(ctx, cfg)
	if err != nil {
		return nil, connectError(ctx, cfg, err, tells())
	}
	d, err := newService(client, c, keys)
	if err != nil {
		tells()
		client.Close()
		return nil, err
	}
	d.release = client.Close
	err = d.probe(ctx)
	obstacle := tells()
	if err != nil {
		client.Close()
		return nil, connectError(ctx, cfg, err, obstacle)
	}
	d.warnIfOpen(ctx)
	return coord.NewClient(d, c.client...), nil
}

// maxAnswer is the most that an answer may have: a page of a line is far less.
const maxAnswer = 128 << 20

const (
	// inquireAfter is how soon Connect asks what is in the way, and inquireEvery how often it asks again.
	inquireAfter = 50 * time.Millisecond
	inquireEvery = 3 * time.Second
)

// inquire finds out from time to time what is in the way of a connection, and logs it, until ctx ends or tells is called,
// which returns the latest obstacle. The client library does not say: it just waits.
func inquire(ctx context.Context, cfg clientv3.Config, log *slog.Logger) (tells func() error) {
	ctx, cancel := context.WithCancel(ctx)
	found := make(chan error, 1)
	go func() {
		var last error
		for pause := inquireAfter; driverkit.Sleep(ctx, pause) == nil; {
			err := obstacle(ctx, cfg)
			if ctx.Err() != nil {
				break
			}
			if last = err; err != nil {
				pause = inquireEvery
				log.Warn("etcd: out of reach, trying on", "endpoints", strings.Join(cfg.Endpoints, ", "), "err", err)
			}
		}
		found <- last
	}()
	return func() error {
		cancel()
		return <-found
	}
}

// obstacle makes a connection and returns why that fails; nil: it does not fail, or nothing is known yet.
func obstacle(ctx context.Context, cfg clientv3.Config) error {
	cfg.Username, cfg.Password, cfg.Token = "", "", "" // with a user name, making the client would wait
	client, err := dial(ctx, cfg)
	if err != nil {
		return nil // Connect itself reports it
	}
	defer client.Close()
	return hint(unreached(ctx, client.ActiveConnection()), cfg.TLS != nil || strings.HasPrefix(strings.Join(cfg.Endpoints, ""), "https"))
}

// unreached returns what is in the way of a connection; nil: it works, or nothing is known before ctx ends.
func unreached(ctx context.Context, conn *grpc.ClientConn) error {
	_, err := pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{Key: []byte{0}, Serializable: true, CountOnly: true}, grpc.WaitForReady(false))
	if status.Code(err) != codes.Unavailable {
		return nil
	}
	text := strings.TrimPrefix(status.Convert(err).Message(), "connection error: desc = ")
	if plain, err := strconv.Unquote(text); err == nil {
		text = plain
	}
	return errors.New(text)
}

// hint explains errors of the library that are hard to understand.
func hint(err error, tls bool) error {
	for _, riddle := range []struct {
		says string
		tls  bool
		hint string
	}{
		{"looked like an HTTP/1.1 header", tls, "what answers there is not etcd, but speaks HTTP/1.1"},
		{"tls: certificate required", tls, "it wants a certificate: set TLS in the client's Config"},
		{"tls: bad certificate", tls, "it does not take the certificate in the client's Config"},
		{"broken pipe", true, "it hangs up after the handshake, as a service does that wants a certificate: see TLS in the client's Config"},
		{"connection reset", true, "it hangs up, as a service may that wants a certificate: see TLS in the client's Config"},
		{"authentication handshake failed: EOF", true, "it does not speak TLS, which the client's Config asks for"},
		{"first record does not look like a TLS handshake", true, "it does not speak TLS, which the client's Config asks for"},
		{"error reading server preface", false, "it hangs up, as a service does that speaks TLS, which the client's Config does not ask for, or one that is not etcd"},
	} {
		if err != nil && riddle.tls == tls && strings.Contains(err.Error(), riddle.says) {
			return fmt.Errorf("%s: %w", riddle.hint, err)
		}
	}
	return err
}

// checkEndpoints refuses what nobody could dial. Schemes other than those of URLs are the client library's affair, and what
// DialOptions can reach, which may have a dialer among them, is theirs.
func checkEndpoints(cfg *clientv3.Config) error {
	if len(cfg.Endpoints) == 0 {
		return errors.New("it has no endpoints: write host:2379, say")
	}
	if len(cfg.DialOptions) > 0 {
		return nil
	}
	for _, e := range cfg.Endpoints {
		scheme, host, named := strings.Cut(e, "://")
		switch {
		case !named && strings.HasPrefix(e, "unix"), named && scheme != "http" && scheme != "https":
			continue
		case !named:
			host = e
		}
		if err := driverkit.CheckAddress(strings.TrimSuffix(host, "/")); err != nil {
			return err
		}
	}
	return nil
}

// checkPassword looks where a password or a token would go. The library encrypts to all endpoints or to none: it decides by
// the first one.
func (c *config) checkPassword(cfg clientv3.Config) error {
	if cfg.Password == "" && cfg.Token == "" {
		return nil
	}
	var encrypted *tls.Config
	for i, e := range cfg.Endpoints {
		scheme, host, named := strings.Cut(e, "://")
		if !named {
			scheme, host = "", e
		}
		scheme = strings.ToLower(scheme)
		if i == 0 && (scheme == "https" || cfg.TLS != nil && scheme != "http") {
			encrypted = cmp.Or(cfg.TLS, new(tls.Config))
		}
		switch {
		case strings.HasPrefix(e, "unix:"), strings.HasPrefix(e, "unixs:"):
			_, path, _ := strings.Cut(e, ":")
			host = driverkit.Socket(strings.TrimPrefix(path, "//"))
		case scheme != "" && scheme != "http" && scheme != "https":
			host = e // wherever that leads
		}
		if err := driverkit.CheckPassword(host, encrypted, c.cleartext, c.log); err != nil {
			return fmt.Errorf("%w; an endpoint that begins with http:// has no TLS", err)
		}
	}
	return nil
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
	if cfg.MaxCallRecvMsgSize == 0 { // the library's own is 2 GB, and it takes a server's word for how much will come
		cfg.MaxCallRecvMsgSize = max(maxAnswer, cfg.MaxCallSendMsgSize)
	}
	// The library's own pauses grow to two minutes, which no session would survive. The caller's options come later, so they
	// win.
	reconnect := backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}
	cfg.DialOptions = append([]grpc.DialOption{grpc.WithDefaultCallOptions(grpc.ForceCodecV2(newVetted())), grpc.WithConnectParams(grpc.ConnectParams{
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
		_, err := d.get(ctx, d.keys.sessions(), clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
		return err
	})
}

// warnIfOpen warns if everybody has all rights. If there are users, most of them may not even ask; and etcd before 3.5
// cannot be asked.
func (d *service) warnIfOpen(ctx context.Context) {
	if !d.log.Enabled(ctx, slog.LevelWarn) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	status, err := pb.NewAuthClient(d.conn).AuthStatus(ctx, &pb.AuthStatusRequest{})
	if err == nil && !status.GetEnabled() {
		d.log.Warn("etcd: whoever reaches the service may take and end these locks: enable its authentication", "root", d.keys.root)
	}
}

func connectError(ctx context.Context, cfg clientv3.Config, err, obstacle error) error {
	switch {
	case errors.Is(err, coord.ErrDenied):
	case classify(err) == denial:
		err = fmt.Errorf("%w: %w", coord.ErrDenied, err)
	case ctx.Err() != nil:
		if !errors.Is(err, ctx.Err()) { // an error caused by the end of ctx may look different
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		if obstacle != nil {
			err = fmt.Errorf("%w: %w", err, obstacle)
		}
		err = fmt.Errorf("%w: is it running there? %w", coord.ErrUnavailable, err)
	}
	return &shown{fmt.Errorf("turnwise: etcd: connect to %s: %w", strings.Join(cfg.Endpoints, ", "), err)}
}

// shown is an error that contains words of the service, but whose text is safe to show.
type shown struct{ error }

func (s *shown) Error() string { return coord.Printable(s.error.Error()) }
func (s *shown) Unwrap() error { return s.error }
