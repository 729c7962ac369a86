package zk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

// Connect returns a client on a new driver, once the service has answered. It fails if the service does not answer before
// ctx ends (within 30 s if ctx has no deadline), refuses the credentials, or refuses to show what is below the root. It
// also fails if there are access rights to protect (WithDigestAuth, WithACL) and the root is open to others. To keep trying
// for longer, give ctx a deadline, or use New: its client waits for the service with each call.
func Connect(ctx context.Context, servers []string, opts ...Option) (*coord.Client, error) {
	d, err := newService(servers, opts)
	if err != nil {
		return nil, err
	}
	if err := coord.CheckStrength(strength, d.client...); err != nil {
		return nil, fmt.Errorf("turnwise: zk: connect: %w", err)
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.connectFor)
		defer cancel()
	}
	if err := d.check(ctx); err != nil {
		quick, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxDial)
		defer cancel()
		_ = d.Close(quick)
		if isCtx(err) && !errors.Is(err, coord.ErrDenied) {
			err = fmt.Errorf("%w: %w", coord.ErrUnavailable, err)
		}
		return nil, fmt.Errorf("turnwise: zk: connect: %w", err)
	}
	return coord.NewClient(d, d.client...), nil
}

// check finds out whether the service shows what is below the root. Where there are rights to protect, it makes the root,
// so that nobody else does, or checks that the existing one is not open to others.
func (d *service) check(ctx context.Context) error {
	root := d.rootDir()
	_, err := withSession(ctx, d, func(s *session) (struct{}, error) {
		_, err := s.children(ctx, root)
		if errors.Is(err, gozk.ErrNoNode) {
			if d.openToAll {
				return struct{}{}, nil
			}
			if err = s.makeDir(ctx, root); errors.Is(err, gozk.ErrNoAuth) { // perhaps somebody else is to make it
				return struct{}{}, nil
			}
		}
		if err == nil {
			err = s.vetRoot(ctx)
		}
		return struct{}{}, err
	})
	return err
}

// open begins the session and returns when the service has confirmed it.
func (s *session) open(ctx context.Context) error {
	if err := s.start(); err != nil {
		s.end(errClosed)
		return err
	}
	if err := s.introduce(ctx); err != nil {
		s.sayGoodbye(ctx)
		return err
	}
	return nil
}

// start has the library connect, and reconnect as often as needed, on its own goroutines.
func (s *session) start() error {
	log := s.service.log
	conn, events, err := gozk.Connect(s.service.servers, s.service.ttl,
		gozk.WithDialer(s.dial),
		gozk.WithHostProvider(s.hosts),
		gozk.WithEventCallback(s.event),
		gozk.WithLogger(libraryLogger{log}),
		gozk.WithLogInfo(log.Enabled(context.Background(), slog.LevelDebug)),
	)
	if err != nil {
		return err
	}
	s.conn = conn
	close(s.ready)
	s.life.Go(func() {
		for range events { // closed when the library's own goroutines have ended
		}
	})
	return nil
}

// introduce waits for the connection and says who we are.
func (s *session) introduce(ctx context.Context) error {
	if err := s.firstContact(ctx); err != nil {
		return err
	}
	for _, a := range s.service.auth {
		if err := s.insist(ctx, func(c *gozk.Conn) error { return c.AddAuth(a.scheme, a.data) }); err != nil {
			if errors.Is(err, gozk.ErrAuthFailed) {
				err = fmt.Errorf("%w: the service refuses the %s credentials: %w", driver.ErrDenied, a.scheme, err)
			}
			return err
		}
	}
	s.introduced.Store(true)
	return nil
}

func (s *session) firstContact(ctx context.Context) error {
	still := time.NewTicker(s.service.RequestTimeout())
	defer still.Stop()
	for {
		select {
		case <-s.isUp():
			return nil
		case <-s.troubles.Hopeless():
			return fmt.Errorf("%w: %w", driver.ErrDenied, s.troubles.Last())
		case <-s.life.Done():
			return s.life.Why()
		case <-ctx.Done():
			return fmt.Errorf("no session with ZooKeeper at %v: %w: %w", s.service.servers, ctx.Err(), s.troubles.Last())
		case <-still.C:
			s.service.log.Warn("zk: no session with ZooKeeper yet", "servers", s.service.servers, "err", s.troubles.Last())
		}
	}
}

// maxDial is how long it may take to reach a server, and at first also how long its greeting may take.
const maxDial = 1500 * time.Millisecond

func (s *session) dialTimeout() time.Duration {
	return min(maxDial, max(s.timeout()/3, 100*time.Millisecond))
}

// patience is how long a server's greeting, or its part of the TLS handshake, may take. It doubles each time that was not
// enough: every try that is given up leaves a session at the service.
func (s *session) patience(slow int) time.Duration {
	d := s.dialTimeout()
	for ; slow > 0 && d < s.timeout(); slow-- {
		d = min(2*d, s.timeout())
	}
	return d
}

var errNoMoreDials = errors.New("the session has ended")

// dial is how the client library reaches a server.
func (s *session) dial(_, server string, _ time.Duration) (net.Conn, error) {
	if driverkit.Sleep(s.life.Context(), s.hosts.Pause()) != nil {
		return nil, errNoMoreDials
	}
	ctx, cancel := context.WithTimeout(s.life.Context(), s.dialTimeout())
	defer cancel()
	c, as, err := s.hosts.Dial(ctx, server)
	hello := s.hello(as)
	if err == nil && s.service.tls != nil {
		ctx, cancel := context.WithTimeout(s.life.Context(), hello.Patience)
		defer cancel()
		c, err = wire.Secure(ctx, c, server, s.service.tls)
	}
	if err != nil {
		s.Failed(as, err, false)
		return nil, err
	}
	w := wire.New(c, as, hello, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Over() {
		c.Close()
		return nil, errNoMoreDials
	}
	s.wire = w
	return w, nil
}

// hello returns what the next connection to a server begins with.
//
// When in doubt, the connection only asks whether the server knows the session. A server hangs up on clients that have seen
// more than it has, before it checks whether it knows them. So if the service came back without its data, we would never
// hear that the session has ended.
func (s *session) hello(server string) wire.Hello {
	s.mu.Lock()
	snubs := s.snubs[server]
	s.mu.Unlock()
	h := wire.Hello{Timeout: s.timeout(), Patience: s.patience(snubs.slow), Seen: s.zxids.Load()}
	if s.introduced.Load() {
		h.Probe = snubs.last && s.inDoubt()
		h.Proofs = len(s.service.auth)
	}
	return h
}

// libraryLogger logs what the client library says, at debug level.
type libraryLogger struct{ to *slog.Logger }

func (l libraryLogger) Printf(format string, args ...any) {
	if l.to.Enabled(context.Background(), slog.LevelDebug) {
		l.to.Debug("zk: client library: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}
