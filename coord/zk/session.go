package zk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
)

// session is one session at the service, on one Conn of the client library. A Conn goes on with a new session when
// the service has ended the old one, and does there what was still queued; so it is closed in the very callback that
// brings the news, never dials again, and is never used again.
type session struct {
	driver *Driver
	conn   *gozk.Conn
	ready  chan struct{} // closed when conn is set
	hosts  *hosts
	ctx    context.Context // ends with the session
	cancel context.CancelFunc

	base     time.Time    // what deadline counts from, for its monotonic clock
	deadline atomic.Int64 // ns after base
	ttl      atomic.Int64 // as granted; ns

	known      atomic.Pointer[credentials]
	introduced atomic.Bool // the service has confirmed the session
	snubbed    atomic.Bool // the server that was tried last hung up without a word

	slots    chan struct{}        // one for each request whose answer takes time
	spoken   atomic.Pointer[wire] // the latest connection that was usable
	watches  watches
	troubles troubles
	zxids    zxids

	mu       sync.Mutex
	up       chan struct{}        // closed while there is a usable connection
	wire     *wire                // the present or latest connection
	standing map[string]*standing // those of us in line, by path
	lines    map[string]struct{}  // directories that may have to be removed by hand
	working  sync.WaitGroup
	ended    bool
	why      error // it has ended

	done  chan struct{} // closed when the session is over
	bye   chan struct{} // closed when the service has confirmed a close
	byeDo sync.Once
	quiet chan struct{} // closed when nothing of it runs any more
}

// inFlight is how many requests are made at once. The library queues 16, and what waits there cannot be taken back.
const inFlight = 256

// Why a session is over.
var (
	errClosed    = fmt.Errorf("%w: it was closed here", driver.ErrSessionEnded)
	errAbandoned = fmt.Errorf("%w: it was abandoned here", driver.ErrSessionEnded)
	errExpired   = fmt.Errorf("%w: the service has expired it", driver.ErrSessionEnded)
)

func newSession(d *Driver) *session {
	s := &session{
		driver:   d,
		ready:    make(chan struct{}),
		base:     time.Now(),
		slots:    make(chan struct{}, inFlight),
		up:       make(chan struct{}),
		standing: make(map[string]*standing),
		lines:    make(map[string]struct{}),
		done:     make(chan struct{}),
		bye:      make(chan struct{}),
		quiet:    make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.ttl.Store(int64(d.timeout))
	s.watches.all = make(map[string]*watch)
	s.hosts = &hosts{over: s.over, longest: min(d.timeout/20, 500*time.Millisecond)}
	s.troubles = troubles{denials: make(map[string]error), refused: make(chan struct{}), servers: len(d.servers)}
	return s
}

// open begins the session and returns when the service has confirmed it.
func (s *session) open(ctx context.Context) error {
	if err := s.connect(); err != nil {
		s.finish(errClosed)
		return err
	}
	if err := s.introduce(ctx); err != nil {
		s.end(ctx)
		return err
	}
	return nil
}

// isOpen reports whether the session was confirmed and is not over.
func (s *session) isOpen() bool { return s.introduced.Load() && !s.over() }

func (s *session) connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.up:
		return true
	default:
		return false
	}
}

func (s *session) connect() error {
	logger, chatty := s.driver.libraryLogger()
	conn, events, err := gozk.Connect(s.driver.servers, s.driver.timeout,
		gozk.WithDialer(s.dial),
		gozk.WithHostProvider(s.hosts),
		gozk.WithEventCallback(s.event),
		gozk.WithLogger(logger),
		gozk.WithLogInfo(chatty),
	)
	if err != nil {
		return fmt.Errorf("zk: %w", err)
	}
	s.conn = conn
	close(s.ready)
	s.spawn(func() {
		for range events { // closed when the library's own goroutines have ended
		}
	})
	s.spawn(s.watchdog)
	return nil
}

// introduce waits for the connection and says who we are.
func (s *session) introduce(ctx context.Context) error {
	if err := s.firstContact(ctx); err != nil {
		return err
	}
	for _, a := range s.driver.auth {
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
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	select {
	case <-up:
		return nil
	case <-s.troubles.refused:
		return fmt.Errorf("%w: %w", driver.ErrDenied, s.troubles.lastWords())
	case <-s.done:
		return s.ending()
	case <-ctx.Done():
		return fmt.Errorf("no session with ZooKeeper at %v: %w: %w", s.driver.servers, ctx.Err(), s.troubles.lastWords())
	}
}

// event is called by the library, in the order of the service, and must not block.
func (s *session) event(ev gozk.Event) {
	switch ev.State {
	case gozk.StateHasSession:
		s.mu.Lock()
		w := s.wire
		s.mu.Unlock()
		if w.isProven() {
			s.usable(w)
		}
	case gozk.StateDisconnected:
		s.mu.Lock()
		select {
		case <-s.up:
			s.up = make(chan struct{})
		default:
		}
		s.mu.Unlock()
	case gozk.StateExpired:
		s.driver.log.Warn("session expired", "session", s.id())
		s.finish(errExpired)
		<-s.ready
		s.conn.Close() // here and now: when this returns, the library would go on to a new session
	}
}

// usable is called when a connection takes requests, and knows again who we are.
func (s *session) usable(w *wire) {
	s.spoken.Store(w)
	s.watches.reconnected()
	s.mu.Lock()
	close(s.up)
	s.mu.Unlock()
	s.driver.log.Debug("connected", "server", w.addr, "session", s.id())
}

// notified takes the news of a node, in the order of the service.
func (s *session) notified(in *decoder, zxid int64) {
	what, _, nodePath := gozk.EventType(in.int()), in.int(), in.string()
	switch what {
	case gozk.EventNodeDataChanged:
		s.watches.dataChanged(nodePath, zxid, time.Now())
	case gozk.EventNodeDeleted:
		s.watches.deleted(nodePath, zxid, time.Now())
	case gozk.EventNodeCreated, gozk.EventNodeChildrenChanged:
		s.watches.dirChanged(nodePath)
	}
}

func (s *session) id() string { return fmt.Sprintf("%#x", uint64(s.sessionID())) }

func (s *session) sessionID() int64 {
	if c := s.known.Load(); c != nil {
		return c.id
	}
	return 0
}

// granted is called with what the service says of the session at each connect; it renews the session.
func (s *session) granted(c credentials, timeout time.Duration, sent time.Time) {
	s.known.Store(&c)
	s.ttl.Store(int64(timeout))
	s.renewed(sent)
}

// keptFor is for how long after the sending of a request that was answered the service surely keeps the session.
//
// A follower tells the leader whom it has heard from only when the leader pings it, each half tick, and ticks last up
// to half the shortest session. If it dies right after an answer, the leader may not know of that request, nor of
// others within the last quarter of the timeout; it knows of those before, and we send one every fifth. The rest is
// for clocks that differ.
func keptFor(timeout time.Duration) time.Duration { return timeout * 73 / 100 }

func (s *session) renewed(sent time.Time) {
	until := int64(sent.Sub(s.base) + keptFor(s.timeout()))
	for {
		old := s.deadline.Load()
		if until <= old || s.deadline.CompareAndSwap(old, until) {
			return
		}
	}
}

// isInDoubt reports whether to ask a server, next, no more than whether it knows the session. A server hangs up on those
// who have seen what it has not, before it looks whether it knows them. So when the service comes back without its data,
// nobody would ever hear that the session has ended.
func (s *session) isInDoubt() bool {
	return s.snubbed.Swap(false) && s.introduced.Load() && time.Now().After(s.Deadline())
}

// Deadline is described in package driver.
func (s *session) Deadline() time.Time { return s.base.Add(time.Duration(s.deadline.Load())) }

// Done is described in package driver.
func (s *session) Done() <-chan struct{} { return s.done }

func (s *session) timeout() time.Duration { return time.Duration(s.ttl.Load()) }

func (s *session) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// watchdog gives a connection up when a request on it has no answer for half the session's timeout: a server that
// answers pings but has lost its leader. The library then tries the next.
func (s *session) watchdog() {
	tick := time.NewTicker(s.driver.timeout / 8)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			s.mu.Lock()
			w := s.wire
			s.mu.Unlock()
			if w != nil && w.waiting(now) > s.timeout()/2 {
				w.Conn.Close()
			}
		case <-s.done:
			return
		}
	}
}

// spawn runs f on a goroutine that the end of the session waits for. It does nothing once the session is over.
func (s *session) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.working.Go(f)
	return true
}
