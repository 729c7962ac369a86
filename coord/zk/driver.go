package zk

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// service is the driver. It has a connection for each session.
type service struct {
	*config
	plainDirs atomic.Bool  // the service has no container nodes
	unlisted  atomic.Int64 // how many times in a row a session's nodes were not listed; see revise
	warned    sync.Once
	nearEnd   func(line string, seq int32) bool // the same for every line, except in tests

	keepsWatches atomic.Bool // the service does not take watches back: before 3.5

	mu       sync.Mutex
	sessions map[*session]struct{}
	spare    *session // opened to look at lines, or by Connect; the next Open gets it
	closed   bool
}

// New returns a driver for the ensemble of these servers, each given as host or host:port. It does not connect yet, and
// it makes its own connections: see the package comment. The driver belongs to the client that gets it.
func New(servers []string, opts ...Option) (driver.Driver, error) {
	d, err := newService(servers, opts)
	if err != nil {
		return nil, err
	}
	if len(d.client) > 0 {
		return nil, invalid("WithClient is for Connect: pass these options to coord.NewClient")
	}
	return d, nil
}

func newService(servers []string, opts []Option) (*service, error) {
	c, err := configure(servers, opts)
	if err != nil {
		return nil, err
	}
	return &service{
		config:   c,
		nearEnd:  nearEnd,
		sessions: make(map[*session]struct{}),
	}, nil
}

var errDriverClosed = errors.New("the driver is closed")

func (d *service) Open(ctx context.Context) (driver.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	spare := d.spare
	d.spare = nil
	d.mu.Unlock()
	if spare != nil && !spare.life.Over() && !spare.inDoubt() {
		return spare, nil
	}
	if spare != nil {
		spare.abandon(errAbandoned)
	}
	s, err := d.openSession(ctx)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (d *service) openSession(ctx context.Context) (*session, error) {
	s := newSession(d)
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, errDriverClosed
	}
	d.sessions[s] = struct{}{}
	d.mu.Unlock()
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	d.log.Info("zk: session opened", "session", s.id(), "timeout", s.timeout())
	if d.unasked {
		d.warned.Do(func() {
			d.log.Warn("zk: whoever reaches the service may take, end and lock these lines: use WithDigestAuth or WithACL", "root", d.root)
		})
	}
	return s, nil
}

// anySession returns a session for requests that need none of their own: one that is open, or else the spare one.
func (d *service) anySession(ctx context.Context) (*session, error) {
	d.mu.Lock()
	var found *session
	for s := range d.sessions {
		if s.isOpen() && (found == nil || s.connected()) {
			found = s
		}
	}
	d.mu.Unlock()
	if found != nil {
		return found, nil
	}
	s, err := d.openSession(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	if d.spare == nil || d.spare.life.Over() {
		d.spare, s = s, nil
	}
	use := d.spare
	d.mu.Unlock()
	if s != nil { // another caller was faster
		s.sayGoodbye(ctx)
	}
	return use, nil
}

// withSession calls f with any session, and again with another one if the first ends meanwhile.
func withSession[T any](ctx context.Context, d *service, f func(*session) (T, error)) (T, error) {
	for {
		var v T
		s, err := d.anySession(ctx)
		if err == nil {
			v, err = f(s)
		}
		if !errors.Is(err, driver.ErrSessionEnded) || ctx.Err() != nil {
			return v, err
		}
	}
}

func (d *service) forget(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sessions, s)
	if d.spare == s {
		d.spare = nil
	}
}

// Strength is that of an ensemble that writes to disk before it answers, which is the default (forceSync=yes).
func (d *service) Strength() driver.Strength { return strength }

var strength = driver.Strength{
	Order:    driver.FirstCome,
	Death:    driver.ByTTL,
	Restart:  driver.Remembers,
	Failover: driver.Remembers, // of three servers or more
	Tokens:   driver.RiseForEver,
	WakeUp:   driver.Told,
}

// RequestTimeout is half the TTL, and 5 s at most.
func (d *service) RequestTimeout() time.Duration { return min(d.ttl/2, 5*time.Second) }

func (d *service) Close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	var all []*session
	for s := range d.sessions {
		all = append(all, s)
	}
	d.mu.Unlock()
	errs := make([]error, len(all))
	var closing sync.WaitGroup
	for i, s := range all {
		closing.Go(func() {
			errs[i] = s.Close(ctx)
			select {
			case <-s.quiet:
			case <-ctx.Done():
			}
		})
	}
	closing.Wait()
	return errors.Join(errs...)
}
