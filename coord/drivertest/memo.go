package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// What Remember, Memo and Forget must do.
var memos = []scenario{
	{name: "it stays when the line is empty", run: memoStays},
	{name: "each line has its own", run: memoOfEachLine},
	{name: "not written once the node was removed", run: memoOfRemoved},
	{name: "not written once the session has ended", run: memoOfExpired},
	{name: "given up, then left: not written any more", run: memoGivenUp},
	{name: "a try that is applied late undoes nothing", run: memoAppliedLate},
}

// remembers fails unless the line's memo is want.
func (s *scene) remembers(l *Link, line, want string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	if memo, err := l.Memo(ctx, line); err != nil || string(memo) != want {
		s.Errorf("the memo is %q (error %v), want %q", memo, err, want)
	}
}

func (s *scene) remember(me driver.Place, memo string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	value := []byte(memo)
	if memo == "" {
		value = nil
	}
	if err := me.Remember(ctx, value); err != nil {
		s.Fatalf("Remember: %v", err)
	}
}

func (s *scene) forget(l *Link, line string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	if err := l.Forget(ctx, line); err != nil {
		s.Fatalf("Forget: %v", err)
	}
	s.remembers(l, line, "")
}

func memoStays(s *scene) {
	sess, l := s.session()
	_, other := s.session()
	s.remembers(other, s.line, "")
	for _, memo := range []string{"one", "another one", string(make([]byte, driver.MaxMemo))} {
		me, _ := s.join(sess)
		s.remember(me, memo)
		s.remembers(l, s.line, memo)
		s.remember(me, memo)
		s.leave(me, true)
		s.remembers(other, s.line, memo)
		if lines := s.lines(other, s.line); len(lines) > 0 {
			s.Errorf("Lines shows %q; nobody stands there", lines)
		}
	}
	me, _ := s.join(sess)
	s.remember(me, "")
	s.remembers(other, s.line, "")
	s.remember(me, "")
	s.remember(me, "last")
	s.leave(me, true)
	s.forget(other, s.line)
	s.forget(other, s.line)
	s.gone(s.line)
}

func memoOfEachLine(s *scene) {
	sess, l := s.session()
	lines := []string{s.line, s.line + "/b", s.line + "/B", s.line + "b", s.line + "%2Fb", s.line + "/b/c"}
	for _, line := range lines {
		e := s.entry("lock")
		e.Line = line
		me, _ := s.joinAs(sess, e)
		s.remember(me, "of "+line)
		s.leave(me, true)
	}
	for _, line := range lines {
		s.remembers(l, line, "of "+line)
	}
	s.forget(l, lines[1])
	s.remembers(l, lines[0], "of "+lines[0])
	for _, line := range lines {
		s.forget(l, line)
	}
}

func memoOfRemoved(s *scene) {
	sess, l := s.session()
	_, admin := s.session()
	me, _ := s.join(sess)
	s.remember(me, "as it was")
	s.remove(admin, me.Node())
	next, _ := s.join(sess)
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	if err := me.Remember(ctx, []byte("too late")); !errors.Is(err, driver.ErrRemoved) {
		s.Errorf("Remember of a node that was removed: %v, want ErrRemoved", err)
	}
	s.remembers(l, s.line, "as it was")
	s.remember(next, "the next one's")
	s.remembers(l, s.line, "the next one's")
	_ = me.Leave(ctx, false)
	s.leave(next, true)
	s.forget(l, s.line)
}

func memoOfExpired(s *scene) {
	sess, l := s.session()
	s.needs("expire a session", l.Expire == nil)
	_, other := s.session()
	me, _ := s.join(sess)
	s.remember(me, "as it was")
	l.Expire(s, sess)
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	if err := me.Remember(ctx, []byte("too late")); err == nil {
		s.Error("Remember succeeds though the session has ended")
	}
	s.remembers(other, s.line, "as it was")
	s.forget(other, s.line)
}

// memoGivenUp gives up at several moments a memo that is held up on its way.
func memoGivenUp(s *scene) {
	sess, l := s.session()
	s.needs("freeze a link", l.Freeze == nil)
	_, other := s.session()
	for _, after := range []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond} {
		for _, d := range []Direction{Requests, Replies} {
			me, _ := s.join(sess)
			s.remember(me, "as it was")
			thaw := l.Freeze(d)
			ctx, cancel := context.WithTimeout(s.ctx, after)
			_ = me.Remember(ctx, []byte("given up"))
			cancel()
			thaw()
			s.leave(me, true)
			memo := s.memo(other, s.line)
			time.Sleep(2 * Late)
			if later := s.memo(other, s.line); later != memo {
				s.Errorf("the memo was %q when its writer had left, and is %q later", memo, later)
			}
		}
	}
	s.forget(other, s.line)
}

// memoAppliedLate writes another memo after one whose first try had no answer.
func memoAppliedLate(s *scene) {
	sess, l := s.session()
	s.needs("decide the fate of requests", l.Fate == nil)
	for _, f := range []Fate{LostBefore, LostAfter, AppliedLate} {
		for _, next := range []string{"next", ""} {
			me, _ := s.join(sess)
			s.remember(me, "as it was")
			l.Fate(f)
			s.remember(me, "first")
			s.remembers(l, s.line, "first")
			s.remember(me, next)
			time.Sleep(2 * Late)
			s.remembers(l, s.line, next)
			s.leave(me, true)
			s.remembers(l, s.line, next)
		}
	}
	s.forget(l, s.line)
}

func (s *scene) memo(l *Link, line string) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	memo, err := l.Memo(ctx, line)
	if err != nil {
		s.Fatalf("Memo: %v", err)
	}
	return string(memo)
}
