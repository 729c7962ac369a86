package drivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Obligation 8.
var promptness = []scenario{
	{name: "nothing passes", run: callsEndIn(func(l *Link) func() { return l.Freeze(Both) })},
	{name: "no request passes", run: callsEndIn(func(l *Link) func() { return l.Freeze(Requests) })},
	{name: "no reply passes", run: callsEndIn(func(l *Link) func() { return l.Freeze(Replies) })},
	{name: "the link is cut", run: callsEndIn(func(l *Link) func() { return l.Cut() })},
	{name: "the context has ended before", run: callsInEndedContext},
	{name: "many calls in a frozen link", run: manyCallsEnd},
	{name: "closing the driver in a frozen link", run: driverClosesInFrozenLink},
	{name: "abandoning in a frozen link", run: abandonInFrozenLink},
}

// calls returns every call that may block a driver's user, on nodes that stand in line: mine, which has nobody ahead, and
// waiting, which has mine ahead.
func (s *scene) calls(l *Link, sess, other driver.Session, mine, waiting driver.Place) map[string]func(ctx context.Context) error {
	try := asTry(s.entry("lock"))
	return map[string]func(ctx context.Context) error{
		"Open": func(ctx context.Context) error {
			_, err := l.Open(ctx)
			return err
		},
		"Line": func(ctx context.Context) error {
			_, err := l.Line(ctx, s.line)
			return err
		},
		"Lines": func(ctx context.Context) error {
			_, err := l.Lines(ctx, s.line)
			return err
		},
		"First": func(ctx context.Context) error {
			_, err := l.First(ctx, s.line, 1, nil)
			return err
		},
		"First of another": func(ctx context.Context) error {
			seen := mine.Node()
			_, err := l.First(ctx, s.line, 1, &driver.Look{Nodes: []driver.Node{seen}})
			return err
		},
		"Remove": func(ctx context.Context) error { return l.Remove(ctx, mine.Node()) },
		"Join": func(ctx context.Context) error {
			_, _, err := sess.Join(ctx, s.entry("lock"))
			return err
		},
		"Join to try": func(ctx context.Context) error {
			_, _, err := sess.Join(ctx, try)
			return err
		},
		"Watch": mine.Watch,
		"Await": func(ctx context.Context) error {
			_, err := waiting.Await(ctx, []driver.Node{mine.Node()})
			return err
		},
		"Amend":         func(ctx context.Context) error { return waiting.Amend(ctx, "lock", nil) },
		"Leave":         func(ctx context.Context) error { return waiting.Leave(ctx, false) },
		"Session.Close": other.Close,
	}
}

// timed makes a call with a context that ends after d, and returns how much later the call returned.
func timed(ctx context.Context, d time.Duration, call func(ctx context.Context) error) (late time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	late = took(func() { err = call(ctx) }) - d
	return late, err
}

func callsEndIn(trouble func(l *Link) (heal func())) func(s *scene) {
	return func(s *scene) {
		l := s.connect()
		s.needs("freeze and cut a link", l.Freeze == nil || l.Cut == nil)
		// A busy machine may make a call late: of three rounds, one must be good.
		late := map[string]time.Duration{}
		for range 3 {
			worst := s.endTogether(l, trouble)
			clear(late)
			for name, by := range worst {
				if by > ending+slack {
					late[name] = by
				}
			}
			if len(late) == 0 {
				return
			}
		}
		for name, by := range late {
			s.Errorf("%s returned %v after its context had ended", name, by)
		}
	}
}

// endTogether starts every call on a link in trouble and returns how late each one returned.
func (s *scene) endTogether(l *Link, trouble func(l *Link) (heal func())) map[string]time.Duration {
	s.Helper()
	sess, other := s.open(l), s.open(l)
	mine, _ := s.join(sess)
	waiting, _ := s.join(sess)
	heal := trouble(l)
	defer heal()
	var mu sync.Mutex
	worst := map[string]time.Duration{}
	var all sync.WaitGroup
	for name, call := range s.calls(l, sess, other, mine, waiting) {
		all.Go(func() {
			by, err := timed(s.ctx, 200*time.Millisecond, call)
			mu.Lock()
			defer mu.Unlock()
			worst[name] = by
			if errors.Is(err, driver.ErrBusy) {
				s.Errorf("%s: %v, though the service was out of reach", name, err)
			}
		})
	}
	all.Wait()
	heal()
	_ = sess.Close(s.ctx)
	return worst
}

func callsInEndedContext(s *scene) {
	l := s.connect()
	sess, other := s.open(l), s.open(l)
	mine, _ := s.join(sess)
	waiting, _ := s.join(sess)
	for name, call := range s.calls(l, sess, other, mine, waiting) {
		ctx, cancel := context.WithCancel(s.ctx)
		cancel()
		if late, _ := timed(ctx, 0, call); late > ending+slack {
			s.Errorf("%s took %v in a context that had ended", name, late)
		}
	}
}

// A client library may have a short queue: the ZooKeeper client's 17th call blocks before it checks anything.
func manyCallsEnd(s *scene) {
	sess, l := s.session()
	s.needs("freeze a link", l.Freeze == nil)
	mine, _ := s.join(sess)
	heal := l.Freeze(Both)
	defer heal()
	var late time.Duration
	for range 3 {
		var mu sync.Mutex
		late = 0
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() {
				by, _ := timed(s.ctx, 60*time.Millisecond, func(ctx context.Context) error {
					_, _, err := sess.Join(ctx, s.entry("lock"))
					return err
				})
				mu.Lock()
				defer mu.Unlock()
				late = max(late, by)
			})
		}
		all.Wait()
		if late <= ending+slack {
			break
		}
	}
	if late > ending+slack {
		s.Errorf("one of 40 joins returned %v after its context had ended", late)
	}
	heal()
	if !ended(sess) {
		s.leave(mine, true)
	}
	s.gone(s.line)
}

func driverClosesInFrozenLink(s *scene) {
	l := s.connect()
	s.needs("freeze a link", l.Freeze == nil)
	sess := s.open(l)
	me, _ := s.join(sess)
	behind, _ := s.join(sess)
	waiter := s.await(behind, me.Node())
	defer l.Freeze(Both)()
	if late, _ := timed(s.ctx, 200*time.Millisecond, l.Close); late > ending+2*slack {
		s.Errorf("Close of the driver returned %v after its context had ended", late)
	}
	if a := s.within(soon, waiter, "Await when the driver is closed"); !errors.Is(a.err, driver.ErrSessionEnded) {
		s.Errorf("Await: ahead %v, error %v; want ErrSessionEnded", brief(a.ahead...), a.err)
	}
	s.eventually(s.outlives(), "the nodes go with the session", func() bool { return len(s.svc.Stored(s, s.line)) == 0 })
}

func abandonInFrozenLink(s *scene) {
	sess, l := s.session()
	s.needs("freeze a link", l.Freeze == nil)
	defer l.Freeze(Both)()
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Millisecond)
	defer cancel()
	_, _, _ = sess.Join(ctx, s.entry("lock"))
	abandon := func(ctx context.Context) error { sess.Abandon(ctx); return nil }
	if late, _ := timed(s.ctx, 50*time.Millisecond, abandon); late > ending+slack {
		s.Errorf("Abandon returned %v after its context had ended", late)
	}
	s.wait(ending+slack, sess.Done(), "Done is closed after Abandon")
}
