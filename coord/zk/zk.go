package zk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
)

// Driver is turnwise's driver for ZooKeeper. It has a connection for each session.
type Driver struct {
	*config
	plainDirs atomic.Bool // the service has no container nodes
	nearEnd   func(line string, seq int32) bool

	mu       sync.Mutex
	sessions map[*session]struct{}
	spare    *session // opened to look at lines, or by Connect; the next Open gets it
	closed   bool
}

// New returns a driver for the ensemble of these servers, each given as host or host:port. It does not connect yet.
// The driver belongs to the client that it is given to.
func New(servers []string, opts ...Option) (driver.Driver, error) { return newDriver(servers, opts) }

func newDriver(servers []string, opts []Option) (*Driver, error) {
	c, err := configure(servers, opts)
	if err != nil {
		return nil, err
	}
	return &Driver{
		config:   c,
		nearEnd:  func(_ string, seq int32) bool { return nearEnd(seq) },
		sessions: make(map[*session]struct{}),
	}, nil
}

// Connect returns a client on a new driver, once the service has answered. If it does not before ctx ends, or refuses
// the credentials or to show what is below the root, the error says so.
func Connect(ctx context.Context, servers []string, opts ...Option) (*coord.Client, error) {
	d, err := newDriver(servers, opts)
	if err != nil {
		return nil, err
	}
	if err := d.check(ctx); err != nil {
		quick, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxDial)
		defer cancel()
		_ = d.Close(quick)
		if errors.Is(err, driver.ErrDenied) {
			err = fmt.Errorf("%w: %w", coord.ErrDenied, err)
		} else if isCtx(err) {
			err = fmt.Errorf("%w: %w", coord.ErrUnavailable, err)
		}
		return nil, fmt.Errorf("zk: connect: %w", err)
	}
	return coord.NewClient(d, d.client...), nil
}

func (d *Driver) check(ctx context.Context) error {
	s, err := d.anySession(ctx)
	if err != nil {
		return err
	}
	root := d.root
	if root == "" {
		root = "/"
	}
	_, err = s.children(ctx, root)
	if errors.Is(err, gozk.ErrNoNode) {
		return nil
	}
	return err
}

var errDriverClosed = errors.New("the driver is closed")

// Open is described in package driver.
func (d *Driver) Open(ctx context.Context) (driver.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	spare := d.spare
	d.spare = nil
	d.mu.Unlock()
	if spare != nil && !spare.over() && time.Now().Before(spare.Deadline()) {
		return spare, nil
	}
	if spare != nil {
		spare.Abandon()
	}
	s, err := d.openSession(ctx)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (d *Driver) openSession(ctx context.Context) (*session, error) {
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
	d.log.Info("session opened", "session", s.id(), "timeout", s.timeout())
	return s, nil
}

// anySession is for what needs no session of its own: one that is there, or else the spare one.
func (d *Driver) anySession(ctx context.Context) (*session, error) {
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
	if d.spare == nil || d.spare.over() {
		d.spare, s = s, nil
	}
	use := d.spare
	d.mu.Unlock()
	if s != nil { // another caller was faster
		s.end(ctx)
	}
	return use, nil
}

// withSession does something by any session, and again by another one if that one ends meanwhile.
func withSession[T any](ctx context.Context, d *Driver, f func(*session) (T, error)) (T, error) {
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

func (d *Driver) forget(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sessions, s)
	if d.spare == s {
		d.spare = nil
	}
}

// RequestTimeout is described in package driver.
func (d *Driver) RequestTimeout() time.Duration { return min(d.timeout/2, 5*time.Second) }

// Close is described in package driver.
func (d *Driver) Close(ctx context.Context) error {
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
