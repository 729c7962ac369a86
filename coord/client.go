package coord

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Client gives one process access to the lines of a service. Make one and keep it; any number of goroutines may use it.
// It opens a session when one is needed, and another when that one is lost.
type Client struct {
	driver    driver.Driver
	observers []*Observer
	observer  *teller // tells them
	namespace string  // "" or with a slash at its end
	owner     Owner
	timeout   time.Duration                // as given with WithRequestTimeout; zero: the driver's
	notes     bool                         // holds say since when
	traces    func(context.Context) string // what nodes say of their traces; nil: nothing
	required  []Strength

	life context.Context // ended by Shutdown and Close, or from the start if the service is too weak: no new turns
	end  context.CancelCauseFunc

	sharing sharing // taken before mu

	mu      sync.Mutex
	session *session // nil: none is open
	opening *opening // nil: none is being opened
	ending  *ending  // nil: neither Close nor Shutdown has begun to end the session

	refused   error // why a session was not opened, for good; nil: none was refused since the last one
	trouble   error // what went wrong last
	troubleAt time.Time

	nextSurvey time.Time // before which it lists no lines to find a circle
}

// Option sets up a Client. A nil Option changes nothing.
type Option func(*Client)

// WithOwnerLabel sets a label that others see on this client's nodes, beside the host and the process ID. What is longer than
// a KiB (driver.MaxLabel) is cut off.
func WithOwnerLabel(label string) Option {
	return func(c *Client) { c.owner.Label = label }
}

// WithNamespace puts every line of this client below a name: in the namespace "shop", the line "orders" is what a
// client without a namespace calls "shop/orders". The empty name is no namespace.
func WithNamespace(name string) Option {
	return func(c *Client) {
		c.namespace = ""
		if name != "" {
			c.namespace = name + "/"
		}
	}
}

// WithObserver tells o what the client does. It may be given several times: the Observers are told in that order. A nil
// one is ignored.
func WithObserver(o *Observer) Option {
	return func(c *Client) {
		if o != nil {
			c.observers = append(c.observers, o)
		}
	}
}

// WithRequestTimeout bounds how long TryAcquire, Release, Line, First, Lines and Break may take, including the driver's
// retries. Without it, or with zero or less, each may take as long as the driver allows for a single request: on
// ZooKeeper half the TTL and 5 s at most, on etcd 2 s, and elsewhere some 30 % of the TTL and 2.5 s at most.
func WithRequestTimeout(d time.Duration) Option {
	return func(c *Client) { c.timeout = max(d, 0) }
}

// NewClient returns a client on a driver, which the client owns from then on. It does no I/O until its first call, and
// none at all if the service promises less than is asked for: see Require. NewClient panics if the driver is nil.
func NewClient(d driver.Driver, opts ...Option) *Client {
	if d == nil {
		panic("turnwise: NewClient needs a driver, and got nil")
	}
	host, _ := os.Hostname()
	c := &Client{driver: d, owner: Owner{Host: host, PID: os.Getpid()}}
	c.life, c.end = context.WithCancelCause(context.Background())
	c.setUp(opts)
	c.owner = c.owner.Bounded() // as others will read it
	c.observer = &teller{forClient(c.observers), new(telling)}
	if err := c.checkStrength(d.Strength); err != nil {
		c.end(err)
	}
	return c
}

func (c *Client) setUp(opts []Option) {
	for _, o := range opts {
		if o != nil {
			o(c)
		}
	}
}

// Driver returns the client's driver.
func (c *Client) Driver() driver.Driver { return c.driver }

// Shutdown ends the client in good order. From now on nobody gets a turn, and waiters get ErrClosed. The holds go on
// until their owners have released them, and until then what is asked of them is answered (Memo, SetMemo, Amend, Wanted); then the
// session is ended. If ctx ends first, Shutdown returns and leaves the holds as they are: call it again, or call Close.
func (c *Client) Shutdown(ctx context.Context) error {
	c.end(ErrClosed)
	c.freeIdle("", true)
	for {
		c.mu.Lock()
		held, released := 0, (<-chan struct{})(nil)
		if c.session != nil {
			held, released = len(c.session.holds), c.session.whenReleased()
		}
		c.mu.Unlock()
		if held == 0 {
			return c.finish(ctx, "shutdown")
		}
		select {
		case <-released:
		case <-ctx.Done():
			return &Error{Op: "shutdown", Err: fmt.Errorf("%w: %d holds not released", ctx.Err(), held)}
		}
	}
}

// Close ends the client at once: the contexts of its holds end with ErrClosed. The session is ended only if every hold
// has been released. Otherwise Close takes away the nodes of those that wait or join, and leaves the session to its
// TTL, so that nobody enters beside work that still runs. Where only the kernel tells of a death, no TTL ends it: there the
// driver stays open until all holds have been released, and Release, also after Close, takes the hold's node away. Elsewhere
// the next one waits for the TTL: release first, or call Shutdown, which waits for that. Close takes at most as long as the
// driver allows for a single request.
func (c *Client) Close() error {
	c.end(ErrClosed)
	c.freeIdle("", true)
	return c.finish(context.Background(), "close")
}

// ending is the end of the session and the driver, under way or complete.
type ending struct {
	done chan struct{}
	err  error // valid after done
}

// finish ends the holds, the session and the driver. It goes on after ctx has ended: a session that was asked to end
// must not last until its TTL only because nobody waits for it.
func (c *Client) finish(ctx context.Context, op string) error {
	c.mu.Lock()
	e := c.ending
	if e == nil {
		e = &ending{done: make(chan struct{})}
		c.ending = e
		var holds []*Hold
		s := c.session
		if s != nil {
			for h := range s.holds {
				holds = append(holds, h)
			}
		}
		c.mu.Unlock()
		for _, h := range holds {
			h.finish(&closedHold{})
		}
		go c.finishNow(e, s, len(holds) > 0)
	} else {
		c.mu.Unlock()
	}
	var err error
	select {
	case <-e.done:
		c.observer.rest()
		err = e.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return &Error{Op: op, Err: translate(err)}
	}
	return nil
}

func (c *Client) finishNow(e *ending, s *session, held bool) {
	ctx, cancel := context.WithTimeout(context.Background(), c.driver.RequestTimeout())
	defer cancel()
	switch {
	case s == nil:
	case held && !s.ended():
		s.awaitDepartures(ctx)
		s.leftOver.Store(true)
		forEver := c.driver.Strength().Death&driver.ByTTL == 0
		s.abandoned.Store(forEver)
		s.Abandon(ctx)
		if forEver {
			close(e.done)
			s.atRest(func() {
				ctx, cancel := context.WithTimeout(context.Background(), c.driver.RequestTimeout())
				defer cancel()
				_ = c.driver.Close(ctx)
			})
			return
		}
	default:
		s.closing.Store(!s.ended())
		e.err = s.Close(ctx)
	}
	if s != nil && s.ended() {
		c.dropSession(s) // its keeper may not have told observers yet
	}
	if err := c.driver.Close(ctx); e.err == nil {
		e.err = err
	}
	close(e.done)
}

// requestTimeout is how long a call may take that waits only for the service.
func (c *Client) requestTimeout() time.Duration {
	if c.timeout > 0 {
		return c.timeout
	}
	return c.driver.RequestTimeout()
}

// request calls what waits only for the service. If that does not answer in time, the error says so: the caller's own time is not up, as the
// context's words for that would say.
func (c *Client) request(ctx context.Context, call func(ctx context.Context) error) error {
	patience := c.requestTimeout()
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := call(waiting)
	if errors.Is(err, context.DeadlineExceeded) && waiting.Err() != nil && ctx.Err() == nil {
		return &said{ErrUnavailable, &silence{patience, err}}
	}
	return err
}

// fullName is the line's name at the service.
func (c *Client) fullName(line string) (string, error) {
	name := c.namespace + line
	if err := checkName(line); err != nil {
		return "", err
	}
	return name, checkName(name)
}

// openName is fullName for a client that must be open.
func (c *Client) openName(line string) (string, error) { return c.nameIn(c.life, line) }

// nameIn is fullName for somebody whose life must not be over: a client's, or that of a hold, which goes on during Shutdown.
func (c *Client) nameIn(life context.Context, line string) (string, error) {
	name, err := c.fullName(line)
	if err == nil && life.Err() != nil {
		err = context.Cause(life)
	}
	return name, err
}

// ownName is the line's name as the users of this client know it.
func (c *Client) ownName(full string) string { return strings.TrimPrefix(full, c.namespace) }
