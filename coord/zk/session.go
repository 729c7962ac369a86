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
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

// session is one session at the service, on one Conn of the client library. Left alone, a Conn carries on with a new
// session when the service has ended the old one, and sends it what was still queued. So the Conn is closed in the very
// callback that brings the news, and never dials or is used again.
type session struct {
	service  *service
	life     *driverkit.Life
	ttl      atomic.Int64  // as first granted, and asked for from then on; ns
	zxids    driverkit.Max // the service's latest transaction
	roster   *roster
	renewal  renewal
	renewing sync.Mutex // one at a time decides that a link is due
	watches  watches
	lists    lists

	conn       *gozk.Conn
	ready      chan struct{} // closed when conn is set
	hosts      *wire.Hosts
	troubles   *wire.Troubles
	identity   atomic.Pointer[wire.Identity]
	introduced atomic.Bool               // the service has confirmed the session
	usable     atomic.Pointer[wire.Conn] // the latest connection that took requests
	slots      chan struct{}             // one for each request whose answer takes time
	window     window
	vetted     vetted

	mu    sync.Mutex
	up    chan struct{}       // closed while there is a usable connection
	wire  *wire.Conn          // the present or latest connection
	lines map[string]struct{} // plain directories, which we remove when the session is closed
	snubs map[string]snubs    // by server

	quiet chan struct{} // closed when nothing of the session runs any more
}

// snubs is how a server has treated us since it last accepted us.
type snubs struct {
	last  bool // it hung up without a word at the last try
	known int  // how often it knew the session after that
	slow  int  // how often its greeting did not come in time
}

// inFlight is how many requests may be under way at once. The library queues 16, which cannot be taken back.
const inFlight = 256

// Why a session is over.
var (
	errClosed    = errors.New("it was closed here")
	errAbandoned = errors.New("it was abandoned here")
	errExpired   = errors.New("the service has expired it")
	errWentBack  = errors.New("the service has gone back to an earlier state, such as a backup")
)

func newSession(d *service) *session {
	s := &session{
		service: d,
		life:    driverkit.NewLife(context.Background()),
		renewal: newRenewal(),
		watches: watches{all: make(map[string]*watch)},
		roster:  newRoster(),
		ready:   make(chan struct{}),
		slots:   make(chan struct{}, inFlight),
		window:  window{sizes: make(map[string]int)},
		up:      make(chan struct{}),
		lists:   lists{next: make(map[string]*sharedList)},
		lines:   make(map[string]struct{}),
		snubs:   make(map[string]snubs),
		quiet:   make(chan struct{}),
	}
	s.hosts = &wire.Hosts{Over: s.life.Over, Longest: func() time.Duration { return s.timeout() / 20 }, Lookup: d.lookup, Dialer: d.dial}
	s.troubles = wire.NewTroubles(s.hosts.Addresses)
	s.ttl.Store(int64(d.ttl))
	return s
}

// isOpen reports whether the session was confirmed and is not over.
func (s *session) isOpen() bool { return s.introduced.Load() && !s.life.Over() }

func (s *session) id() string {
	if id := s.identity.Load(); id != nil {
		return fmt.Sprintf("%#x", uint64(id.ID))
	}
	return "0x0"
}

func (s *session) timeout() time.Duration { return time.Duration(s.ttl.Load()) }

func (s *session) Deadline() time.Time { return s.renewal.deadline.Time() }

func (s *session) Done() <-chan struct{} { return s.life.Done() }

// Why says why the session is over.
func (s *session) Why() error { return s.life.Why() }

// isUp is closed while there is a usable connection.
func (s *session) isUp() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.up
}

func (s *session) connected() bool {
	select {
	case <-s.isUp():
		return true
	default:
		return false
	}
}

// latest returns the present or latest connection; nil: there was none.
func (s *session) latest() *wire.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wire
}

// event is called by the library, in the service's order, and must not block.
func (s *session) event(ev gozk.Event) {
	switch ev.State {
	case gozk.StateHasSession:
		if w := s.latest(); w.IsProven() {
			s.Proven(w)
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
		s.service.log.Warn("zk: session expired", "session", s.id())
		s.end(errExpired)
		<-s.ready
		s.conn.Close() // right here: once this returns, the library would go on to a new session
	}
}

// Proven is called when a connection takes requests and has been given our credentials again.
func (s *session) Proven(w *wire.Conn) {
	if s.introduced.Load() {
		s.revise(w)
	}
	s.usable.Store(w)
	s.renew(w)
	s.watches.reconnected(w)
	s.mu.Lock()
	close(s.up)
	s.mu.Unlock()
	s.service.log.Debug("zk: connected", "server", w.Server, "session", s.id())
}

// revise finds out whether the service has gone back to an earlier state, in which the session has nodes that have since
// left. They would stand for as long as the session is renewed, so it is given up, and the engine goes on with another one. Or
// a write was applied twice, and a node of its own stands there a second time: so the server has to catch up first.
//
// Servers before 3.6 do not know the request: they say so and hang up.
func (s *session) revise(w *wire.Conn) {
	if s.service.unlisted.Load() >= maxUnlisted {
		return
	}
	catchUp, caughtUp := wire.Sync(s.service.rootDir())
	w.Send(catchUp, wire.Ephemerals(s.service.root, func(nodes []string, err error) {
		switch {
		case err == nil:
			s.service.unlisted.Store(0)
		case errors.Is(err, gozk.ErrConnectionClosed):
			if caught := <-caughtUp; caught.Err == nil { // it has answered that, and then hung up
				s.service.unlisted.Add(1)
			}
		default:
			s.service.unlisted.Store(maxUnlisted)
		}
		if nodePath, found := s.roster.stranger(nodes); found {
			s.wentBack("node", nodePath)
		}
	}))
}

// maxUnlisted is how many connections in a row may break before they have listed the session's nodes. After that none is
// asked.
const maxUnlisted = 10

func (s *session) wentBack(about ...any) {
	s.service.log.Warn("zk: session given up: the service has gone back to an earlier state", append(about, "session", s.id())...)
	s.abandon(errWentBack)
}

// Granted is called at each connect. A majority has agreed to a new session; but that an old one is alive may be the word
// of a server that has lost the others.
//
// A server with a smaller maxSessionTimeout than the previous one cuts the timeout, and the service counts by that from now
// on. Deadlines never move back, so the session ends here; its nodes stay until the service ends it as well. A longer
// timeout than at first does not count: a new leader begins with what was granted at first.
func (s *session) Granted(w *wire.Conn, id wire.Identity, timeout time.Duration, sent time.Time) (time.Duration, error) {
	before := s.identity.Swap(&id)
	fresh := before == nil || before.ID != id.ID // nobody had heard of the previous one
	switch {
	case fresh:
		s.ttl.Store(int64(timeout))
		if before == nil {
			s.life.Go(s.keep)
		}
	case timeout < s.timeout():
		why := fmt.Errorf("the service has cut the session's timeout from %v to %v", s.timeout(), timeout)
		s.service.log.Warn("zk: session given up: all servers should have the same maxSessionTimeout", "session", s.id(), "err", why)
		s.abandon(why)
		return 0, why
	}
	s.mu.Lock()
	clear(s.snubs)
	s.mu.Unlock()
	s.renewal.connected(w, sent, timeout, fresh)
	return s.timeout(), nil
}

// Answered may renew the session. What a server says by itself does not: one that has lost its leader, or a leader that has
// lost its followers, goes on answering for syncLimit ticks, and meanwhile the others end the session.
func (s *session) Answered(w *wire.Conn, sent time.Time, zxid int64, by wire.Authority) {
	s.zxids.Saw(zxid)
	s.renewal.answered(w, sent, by)
}

// Notified passes news of a node on to those who wait for it.
func (s *session) Notified(what gozk.EventType, path string, zxid int64) {
	switch what {
	case gozk.EventNodeDataChanged:
		s.watches.dataChanged(path)
	case gozk.EventNodeDeleted:
		s.watches.deleted(path)
	case gozk.EventNodeCreated, gozk.EventNodeChildrenChanged:
		s.watches.dirChanged(path)
	}
}

// Failed notes what is wrong with a server. One that knows the session but repeatedly hangs up on it is behind what the
// session has seen. Asking it again would only renew the session.
func (s *session) Failed(server string, err error, snubbed bool) {
	if s.life.Over() {
		return
	}
	s.service.log.Debug("zk: server out of reach", "server", server, "err", err)
	s.troubles.Note(server, err)
	s.mu.Lock()
	was := s.snubs[server]
	was.last = snubbed
	if errors.Is(err, wire.ErrBehind) {
		was.known++
	} else if !snubbed {
		was.known = 0
	}
	if errors.Is(err, wire.ErrSlow) {
		was.slow++
	}
	s.snubs[server] = was
	s.mu.Unlock()
	if was.known > 1 {
		s.wentBack("server", server)
	}
}

// Go runs f on a goroutine that is waited for when the session ends.
func (s *session) Go(f func()) bool { return s.life.Go(f) }

// end ends the session for everybody in this process, without telling the service.
func (s *session) end(why error) {
	if !s.life.End(why) {
		return
	}
	go func() {
		_ = s.life.Rest(context.Background())
		s.service.forget(s)
		close(s.quiet)
	}()
}

// Close waits no longer than the service would wait for us: if it has heard nothing by then, it has ended the session.
func (s *session) Close(ctx context.Context) error {
	if s.life.Over() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout())
	defer cancel()
	s.removeEmptyLines(ctx)
	if err := s.enter(ctx); err != nil {
		if errors.Is(err, driver.ErrSessionEnded) {
			return nil
		}
		s.abandon(errAbandoned)
		return fmt.Errorf("the session could not be closed at the service and stays until it times out: %w", err)
	}
	s.exit()
	w := s.sayGoodbye(ctx)
	select {
	case <-w.Bye():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the service has not confirmed the end of the session: %w", ctx.Err())
	case <-w.Gone():
		select {
		case <-w.Bye():
			return nil
		default:
			return errors.New("the connection broke before the service confirmed the end of the session")
		}
	}
}

// sayGoodbye ends the session here and has the library tell the service, on the connection that is returned, if there is
// one. The service has until the end of ctx to confirm.
func (s *session) sayGoodbye(ctx context.Context) *wire.Conn {
	ctx, cancel := context.WithTimeout(ctx, s.timeout())
	said := make(chan *wire.Conn, 1)
	if !s.life.Go(func() {
		defer cancel()
		w := <-said
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			s.conn.Close() // takes one to three seconds when nobody answers
		}()
		if w != nil {
			select {
			case <-w.Bye():
			case <-w.Gone():
			case <-ctx.Done():
			}
			w.Silence() // and with it the library's goroutines end
		}
		<-gone
	}) {
		cancel()
	}
	s.end(errClosed) // from now on there is no dialing
	w := s.latest()
	said <- w
	return w
}

func (s *session) Abandon(ctx context.Context) {
	s.life.AwaitErrands(ctx)
	s.abandon(errAbandoned)
	select {
	case <-s.quiet:
	case <-ctx.Done():
	}
}

// abandon ends the session here without telling the service.
func (s *session) abandon(why error) {
	silenced := make(chan struct{})
	if !s.life.Go(func() {
		<-silenced
		s.conn.Close()
	}) {
		return
	}
	s.end(why) // from now on there is no dialing
	s.hangUp()
	close(silenced)
}

// hangUp ends the connection, and with it the library's goroutines.
func (s *session) hangUp() {
	if w := s.latest(); w != nil {
		w.Silence()
	}
}
