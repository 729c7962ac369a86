package drivertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/internal/leak"
)

// Obligation 11. What the service stores is checked in the other scenarios and once more at the end of Run.
var leaks = []scenario{
	{name: "goroutines and files after use and close", alone: true, run: goroutinesAfterClose},
	{name: "goroutines and files after faults and close", alone: true, run: goroutinesAfterFaults},
	{name: "waits that are given up", alone: true, run: waitsGivenUp},
	{name: "sessions that come and go", alone: true, run: sessionsComeAndGo},
	{name: "an opening that is given up", alone: true, run: openingGivenUp},
}

// leavesNoGoroutine runs f as a test of its own, including its clean-up, and fails if new goroutines stay behind.
func (s *scene) leavesNoGoroutine(f func(s *scene)) {
	s.Helper()
	leak.None(s.TB, s.patience, func(inner testing.TB) {
		f(&scene{TB: inner, svc: s.svc, line: s.line, ctx: s.ctx, patience: s.patience})
	})
}

// useAll does a bit of everything.
func (s *scene) useAll(l *Link) {
	s.Helper()
	sess := s.open(l)
	me, _ := s.join(sess)
	behind, ahead := s.join(sess)
	turn := s.queue(behind, ahead, nil)
	holder := s.watch(me)
	s.look(l)
	s.lines(l, s.line)
	s.amend(me, "lock", nil)
	ctx, cancel := context.WithTimeout(s.ctx, 20*time.Millisecond)
	_, _, _ = sess.Join(ctx, s.entry("lock"))
	cancel()
	s.leave(me, true)
	s.mustBeRemoved(soon, holder, "the holder has left")
	s.turn(soon, turn, "the holder has left")
	s.leave(behind, true)
}

func goroutinesAfterClose(s *scene) {
	s.leavesNoGoroutine(func(s *scene) {
		l := s.connect()
		s.useAll(l)
		if err := l.Close(s.ctx); err != nil {
			s.Errorf("Close: %v", err)
		}
	})
}

func goroutinesAfterFaults(s *scene) {
	s.leavesNoGoroutine(func(s *scene) {
		l := s.connect()
		s.needs("freeze and cut a link and decide the fate of requests", l.Freeze == nil || l.Cut == nil || l.Fate == nil)
		s.useAll(l)
		sess, other := s.open(l), s.open(l)
		me, _ := s.join(sess)
		behind, ahead := s.join(sess)
		turn := s.await(behind, ahead...)
		l.Cut()()
		for _, f := range []Fate{LostBefore, LostAfter, AppliedLate} {
			l.Fate(f)
			ctx, cancel := context.WithTimeout(s.ctx, 20*time.Millisecond)
			_, _, _ = sess.Join(ctx, s.entry("lock"))
			cancel()
		}
		thaw := l.Freeze(Both)
		ctx, cancel := context.WithTimeout(s.ctx, 20*time.Millisecond)
		_ = me.Leave(ctx, true)
		other.Abandon(ctx)
		cancel()
		ctx, cancel = context.WithTimeout(s.ctx, 50*time.Millisecond)
		_ = l.Close(ctx)
		cancel()
		if a := s.within(soon, turn, "Await when the driver is closed"); !errors.Is(a.err, driver.ErrSessionEnded) && !errors.Is(a.err, driver.ErrRemoved) && a.err != nil {
			s.Errorf("Await: %v", a.err)
		}
		thaw()
	})
	s.eventually(s.outlives(), "the nodes go", func() bool { return len(s.svc.Stored(s, s.line)) == 0 })
}

// grows fails if n rounds of f leave more than a few goroutines while everything is still open, and n more rounds do so
// again: goroutines that a client starts once, when it first needs them, are no leak.
func (s *scene) grows(n int, f func()) {
	s.Helper()
	f()
	before, after := leak.Growth(n, f)
	if after > before+n/10 {
		before, after = leak.Growth(n, f)
	}
	if after > before+n/10 {
		s.Errorf("%d goroutines, %d after %d rounds", before, after, n)
	}
}

func waitsGivenUp(s *scene) {
	p := s.pair()
	s.grows(200, func() {
		ctx, cancel := context.WithTimeout(s.ctx, time.Millisecond)
		defer cancel()
		if _, err := p.behind.Await(ctx, []driver.Node{p.ahead.Node()}); !isCtx(err) {
			s.Fatalf("Await: %v, want the context's error", err)
		}
	})
	s.grows(100, func() {
		ctx, cancel := context.WithTimeout(s.ctx, time.Millisecond)
		defer cancel()
		_ = p.behind.Watch(ctx)
	})
}

func sessionsComeAndGo(s *scene) {
	l := s.connect()
	s.grows(20, func() {
		sess := s.open(l)
		s.join(sess)
		if err := sess.Close(s.ctx); err != nil {
			s.Fatalf("Close: %v", err)
		}
	})
	s.grows(20, func() {
		sess := s.open(l)
		sess.Abandon(s.ctx)
	})
}

func openingGivenUp(s *scene) {
	s.leavesNoGoroutine(func(s *scene) {
		l := s.connect()
		s.needs("freeze a link", l.Freeze == nil)
		thaw := l.Freeze(Both)
		for range 5 {
			ctx, cancel := context.WithTimeout(s.ctx, 20*time.Millisecond)
			if _, err := l.Open(ctx); err == nil {
				s.Error("Open succeeded in a frozen link")
			}
			cancel()
		}
		thaw()
		s.join(s.open(l))
	})
}
