package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/internal/attempt"
)

const (
	// soon is the time within which a wake-up must arrive when nothing delays it. A driver that misses the event and finds the
	// change only by its next poll takes longer.
	soon = 1500 * time.Millisecond

	// ending is how long a call may go on after its ctx has ended, and slack is what the machine may add to that.
	ending = 100 * time.Millisecond
	slack  = 150 * time.Millisecond
)

// scene is where a scenario plays: on lines of its own at the service under test.
type scene struct {
	testing.TB
	svc  *Service
	line string
	ctx  context.Context // ends with the scenario

	// patience is how long the scenario waits for things that must happen but may take time on a busy machine.
	patience time.Duration
}

var scenes atomic.Int64

// show plays the scenario, and plays it again if it failed while the machine stood still for a good part of the time that a
// session survives.
func (sc scenario) show(t *testing.T, svc *Service) {
	attempt.Insist(t, svc.TTL/10, func(t testing.TB) { sc.play(t, svc) })
}

func (sc scenario) play(t testing.TB, svc *Service) {
	patience := attempt.Patience()
	ctx, cancel := context.WithTimeout(context.Background(), 6*patience)
	t.Cleanup(cancel)
	s := &scene{TB: t, svc: svc, ctx: ctx, patience: patience}
	s.line = s.anotherLine()
	sc.run(s)
}

// anotherLine returns the name of a line that nobody else uses, and that is no prefix of another line's name.
func (s *scene) anotherLine() string { return fmt.Sprintf("scene %d.", scenes.Add(1)) }

// needs skips the scenario if a function that the harness may leave out is nil.
func (s *scene) needs(what string, missing bool) {
	s.Helper()
	if missing {
		s.Skipf("the harness cannot %s", what)
	}
}

func (svc *Service) grace() time.Duration {
	if svc.Grace > 0 {
		return svc.Grace
	}
	return svc.TTL
}

func (s *scene) connect() *Link {
	s.Helper()
	return s.svc.Connect(s)
}

// open begins a session. It ends when its driver is closed.
func (s *scene) open(l *Link) driver.Session {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	for {
		sess, err := l.Open(ctx)
		switch {
		case err == nil:
			return sess
		case errors.Is(err, driver.ErrDenied), ctx.Err() != nil:
			s.Fatalf("Open: %v", err)
		}
		time.Sleep(tick) // the engine also tries again
	}
}

// session opens a session on a link of its own.
func (s *scene) session() (driver.Session, *Link) {
	s.Helper()
	l := s.connect()
	return s.open(l), l
}

var owner = driver.Owner{Host: "host.example", PID: 4711, Label: "a label", Since: time.Date(2026, 1, 2, 15, 4, 5, 123e6, time.UTC)}

func (s *scene) entry(kind string) driver.Entry {
	return driver.Entry{Line: s.line, Kind: kind, Owner: owner}
}

// join joins the scene's line as a lock does, and must succeed.
func (s *scene) join(sess driver.Session) (driver.Place, []driver.Node) {
	s.Helper()
	return s.joinAs(sess, s.entry("lock"))
}

func (s *scene) joinAs(sess driver.Session, e driver.Entry) (driver.Place, []driver.Node) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	me, ahead, err := sess.Join(ctx, e)
	if err != nil {
		s.Fatalf("Join: %v", err)
	}
	if n := me.Node(); n.Line != e.Line || n.Kind != e.Kind || n.ID == "" {
		s.Fatalf("Join returned %v for the entry %v", brief(n), e)
	}
	return me, ahead
}

func (s *scene) leave(me driver.Place, held bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	if err := me.Leave(ctx, held); err != nil {
		s.Fatalf("Leave: %v", err)
	}
}

// remove takes a node away as an operator does.
func (s *scene) remove(l *Link, n driver.Node) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	if err := l.Remove(ctx, n); err != nil {
		s.Fatalf("Remove: %v", err)
	}
}

// amend amends a node and returns the result.
func (s *scene) amend(me driver.Place, kind string, data []byte) driver.Node {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	was := me.Node()
	if err := me.Amend(ctx, kind, data); err != nil {
		s.Fatalf("Amend: %v", err)
	}
	n := me.Node()
	if n.Line != was.Line || n.Token != was.Token || n.Kind != kind || !bytes.Equal(n.Data, data) || n.Owner != was.Owner {
		s.Fatalf("%v became %v, data %q, owner %v; it was to be %s with %q", brief(was), brief(n), n.Data, n.Owner, kind, data)
	}
	return n
}

// look returns the scene's line as the driver shows it.
func (s *scene) look(l *Link) []driver.Node {
	s.Helper()
	return s.lookAt(l, s.line)
}

func (s *scene) lookAt(l *Link, line string) []driver.Node {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	nodes, err := l.Line(ctx, line)
	if err != nil {
		s.Fatalf("Line: %v", err)
	}
	return nodes
}

// answer is what an Await, or a Watch, returned, and when.
type answer struct {
	ahead []driver.Node
	err   error
	at    time.Time
}

// await makes a node wait for others until it has an answer or the scenario is over.
func (s *scene) await(me driver.Place, wait ...driver.Node) <-chan answer {
	return s.awaitIn(s.ctx, me, wait...)
}

func (s *scene) awaitIn(ctx context.Context, me driver.Place, wait ...driver.Node) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		ahead, err := me.Await(ctx, wait)
		c <- answer{ahead, err, time.Now()}
	}()
	return c
}

// watch watches over a node that waits for nobody.
func (s *scene) watch(me driver.Place) <-chan answer { return s.watchIn(s.ctx, me) }

func (s *scene) watchIn(ctx context.Context, me driver.Place) <-chan answer {
	c := make(chan answer, 1)
	go func() { c <- answer{err: me.Watch(ctx), at: time.Now()} }()
	return c
}

// queue makes a node wait for its turn as a mutex does, looking again whenever it is woken, and counts how often it is.
func (s *scene) queue(me driver.Place, ahead []driver.Node, wakeUps *atomic.Int64) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		var err error
		for err == nil && len(ahead) > 0 {
			ahead, err = me.Await(s.ctx, ahead[len(ahead)-1:])
			if wakeUps != nil {
				wakeUps.Add(1)
			}
		}
		c <- answer{ahead, err, time.Now()}
	}()
	return c
}

// within returns the answer, which must come in time.
func (s *scene) within(d time.Duration, c <-chan answer, what string) answer {
	s.Helper()
	a, ok := arrives(d, c)
	if !ok {
		s.Fatalf("%s: no answer within %v", what, d)
	}
	return a
}

// turn is like within, but the answer must say that nobody is ahead.
func (s *scene) turn(d time.Duration, c <-chan answer, what string) answer {
	s.Helper()
	a := s.within(d, c, what)
	if a.err != nil || len(a.ahead) > 0 {
		s.Fatalf("%s: ahead %v, error %v; nobody is ahead", what, brief(a.ahead...), a.err)
	}
	return a
}

// noAnswer checks that no answer comes for a while.
func (s *scene) noAnswer(d time.Duration, c <-chan answer, what string) {
	s.Helper()
	select {
	case a := <-c:
		s.Fatalf("%s: ahead %v, error %v; want no answer", what, brief(a.ahead...), a.err)
	case <-time.After(d):
	}
}

// eventually waits until cond is true, and fails if it does not become so in time.
func (s *scene) eventually(d time.Duration, what string, cond func() bool) {
	s.Helper()
	if !s.happens(d, cond) {
		s.Fatalf("not within %v: %s", d, what)
	}
}

// happens waits until cond is true, and reports whether it was. Time that it oversleeps does not count.
func (s *scene) happens(d time.Duration, cond func() bool) bool {
	for d > 0 {
		asked := time.Now()
		if cond() {
			return true
		}
		d -= time.Since(asked) + tick/2
		time.Sleep(tick / 2)
	}
	return cond()
}

// gone waits until the service stores nothing in the line, and nothing turns up there for as
// long as a request may come late.
func (s *scene) gone(line string) {
	s.Helper()
	s.settles(line, 0)
}

// settles waits until the service has stored n things in the line for as long as a request may come late. Before that there
// may be more: what was under way may arrive if it is taken away again.
func (s *scene) settles(line string, n int) {
	s.Helper()
	limit := time.Now().Add(s.patience)
	for since := time.Now(); time.Since(since) < 2*Late; time.Sleep(10 * time.Millisecond) {
		stored := s.svc.Stored(s, line)
		if len(stored) == n {
			continue
		}
		since = time.Now()
		if since.After(limit) {
			s.Fatalf("the service stores %q, want %d", stored, n)
		}
	}
}

// outlives is how long a node may stand after its session was last heard from, even on a very busy machine.
func (s *scene) outlives() time.Duration { return s.svc.TTL + s.svc.grace() + time.Second + s.patience }

// ended reports whether a session is over.
func ended(sess driver.Session) bool {
	select {
	case <-sess.Done():
		return true
	default:
		return false
	}
}

// wait waits for a channel that must be closed within d.
func (s *scene) wait(d time.Duration, c <-chan struct{}, what string) {
	s.Helper()
	if _, ok := arrives(d, c); !ok {
		s.Fatalf("not within %v: %s", d, what)
	}
}

// brief formats nodes for a failure.
func brief(nodes ...driver.Node) string {
	var b strings.Builder
	b.WriteByte('[')
	for i, n := range nodes {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s:%d(%.40s)", n.Kind, n.Token, n.ID)
	}
	b.WriteByte(']')
	return b.String()
}

// nodesOf returns the nodes of the places.
func nodesOf(places []driver.Place) []driver.Node {
	var nodes []driver.Node
	for _, p := range places {
		nodes = append(nodes, p.Node())
	}
	return nodes
}

// standsIn reports whether the place's node is one of the nodes.
func standsIn(nodes []driver.Node, me driver.Node) bool {
	for _, n := range nodes {
		if n.Token == me.Token {
			return true
		}
	}
	return false
}

// isCtx reports whether an error says that a context has ended.
func isCtx(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
