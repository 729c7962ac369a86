package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Obligation 3, and what the contract says about Close, Abandon and Done.
var deadSessions = []scenario{
	{name: "the service ends one of two sessions", run: oneOfTwoExpires},
	{name: "a session that is not heard of ends", run: frozenSessionEnds},
	{name: "a session that does nothing lives on", run: idleSessionLives},
	{name: "a short cut is ridden out", run: cutSessionLives},
	{name: "what was asked of a session is not done in another", run: sessionsArePinned(false)},
	{name: "what was asked of a session is not done in another after a cut", run: sessionsArePinned(true)},
	{name: "a session that has ended says so", run: endedSessionSaysSo},
	{name: "the end of a session is not taken for a removal", alone: true, run: endIsNoRemoval},
	{name: "closing removes at once", run: closeRemovesAtOnce},
	{name: "closing the driver ends its sessions", run: driverCloseEndsSessions},
	{name: "abandoning leaves the nodes to the TTL", run: abandonLeavesToTTL},
	{name: "abandoning takes away what is on its way out", run: abandonTakesAway},
}

func oneOfTwoExpires(s *scene) {
	l := s.connect()
	s.needs("expire a session", l.Expire == nil)
	a, b := s.open(l), s.open(l)
	other := s.anotherLine()
	s.join(a)
	e := s.entry("lock")
	e.Line = other
	s.joinAs(a, e)
	mine, _ := s.join(b)
	l.Expire(s, a)
	s.wait(s.outlives(), a.Done(), "the session that was expired says that it is done")
	if n := s.svc.Stored(s, other); len(n) > 0 {
		s.Errorf("nodes of a dead session: %q", n)
	}
	nodes := s.look(l)
	if len(nodes) != 1 || nodes[0].ID != mine.Node().ID {
		s.Errorf("Line shows %v, want the node of the session that lives, %v", brief(nodes...), brief(mine.Node()))
	}
	if ended(b) {
		s.Error("the other session has ended too")
	}
}

func frozenSessionEnds(s *scene) {
	sess, l := s.session()
	s.needs("freeze a link", l.Freeze == nil)
	me, _ := s.join(sess)
	thaw := l.Freeze(Both)
	defer thaw()
	if !s.silenceEnds(l, over(sess)) {
		thaw()
		second, ahead := s.join(sess)
		if !standsIn(ahead, me.Node()) {
			s.Errorf("ahead of the second: %v, want %v", brief(ahead...), brief(me.Node()))
		}
		s.leave(second, false)
		s.leave(me, true)
		return
	}
	s.eventually(s.outlives(), "a dead session's node goes", func() bool { return len(s.svc.Stored(s, s.line)) == 0 })
	thaw()
	s.wait(s.patience, sess.Done(), "the session learns that it is over")
	if _, _, err := sess.Join(s.ctx, s.entry("lock")); !errors.Is(err, driver.ErrSessionEnded) {
		s.Errorf("Join: %v, want ErrSessionEnded", err)
	}
	s.gone(s.line)
}

func idleSessionLives(s *scene) {
	sess, l := s.session()
	me, _ := s.join(sess)
	for until := time.Now().Add(2*s.svc.TTL + s.svc.grace()); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if ended(sess) {
			s.Fatal("an idle session has ended")
		}
		if !time.Now().Before(sess.Deadline()) {
			s.Fatalf("the deadline of an idle session passed %v ago", time.Since(sess.Deadline()))
		}
	}
	if nodes := s.look(l); len(nodes) != 1 || nodes[0].ID != me.Node().ID {
		s.Errorf("Line shows %v, want %v", brief(nodes...), brief(me.Node()))
	}
}

func cutSessionLives(s *scene) {
	sess, l := s.session()
	s.needs("cut a link", l.Cut == nil)
	me, _ := s.join(sess)
	for range 3 {
		heal := l.Cut()
		time.Sleep(s.svc.TTL / 10)
		heal()
		time.Sleep(s.svc.TTL / 2)
	}
	if ended(sess) {
		s.Fatal("the session did not survive cuts of a tenth of its TTL")
	}
	other, ahead := s.join(sess)
	if len(ahead) != 1 || ahead[0].ID != me.Node().ID {
		s.Errorf("ahead of the second: %v, want %v", brief(ahead...), brief(me.Node()))
	}
	s.leave(other, false)
	s.leave(me, true)
}

// A client library may keep requests until it is connected again, in another session (8 of 8 creates with the ZooKeeper
// client and two servers). Here there already is another session, and one more is opened afterwards.
func sessionsArePinned(cut bool) func(s *scene) {
	return func(s *scene) {
		l := s.connect()
		s.needs("freeze and cut a link and expire a session", l.Freeze == nil || l.Expire == nil || l.Cut == nil)
		sess := s.open(l)
		me, _ := s.join(sess)
		beside := s.open(l)
		thaw := l.Freeze(Both)
		defer thaw()
		asked := map[string]chan error{"Join": make(chan error, 1), "Amend": make(chan error, 1)}
		go func() {
			_, _, err := sess.Join(s.ctx, s.entry("lock"))
			asked["Join"] <- err
		}()
		go func() { asked["Amend"] <- me.Amend(s.ctx, "lock", nil) }()
		time.Sleep(s.svc.TTL / 10)
		l.Expire(s, sess)
		heal := func() {}
		if cut {
			heal = l.Cut()
		}
		thaw()
		heal()
		for what, c := range asked {
			select {
			case err := <-c:
				if !errors.Is(err, driver.ErrSessionEnded) && !(what == "Amend" && errors.Is(err, driver.ErrRemoved)) {
					s.Errorf("%s: %v, want ErrSessionEnded", what, err)
				}
			case <-time.After(s.outlives()):
				s.Errorf("%s does not return after its session has ended", what)
			}
		}
		if ended(beside) {
			beside = s.open(l)
		}
		next := s.open(l)
		s.gone(s.line)
		for i, sess := range []driver.Session{beside, next} {
			if _, ahead := s.join(sess); len(ahead) != i {
				s.Errorf("number %d of the sessions that live finds %v ahead", i, brief(ahead...))
			}
		}
		s.settles(s.line, 2)
	}
}

func endedSessionSaysSo(s *scene) {
	sess, _ := s.session()
	me, _ := s.join(sess)
	second, ahead := s.join(sess)
	holder, waiter := s.watch(me), s.await(second, ahead...)
	s.noAnswer(20*time.Millisecond, waiter, "Await before the end of the session")
	if err := sess.Close(s.ctx); err != nil {
		s.Fatalf("Close: %v", err)
	}
	check := func(call string, err error) {
		s.Helper()
		if !errors.Is(err, driver.ErrSessionEnded) {
			s.Errorf("%s: %v, want ErrSessionEnded", call, err)
		}
	}
	check("Await of a waiter", s.within(soon, waiter, "Await when the session ends").err)
	check("Await of a holder", s.within(soon, holder, "Await when the session ends").err)
	_, _, err := sess.Join(s.ctx, s.entry("lock"))
	check("Join", err)
	check("Amend", me.Amend(s.ctx, "lock", nil))
	check("Await", s.within(soon, s.await(second, me.Node()), "Await").err)
	if err := me.Leave(s.ctx, true); err != nil && !errors.Is(err, driver.ErrSessionEnded) {
		s.Errorf("Leave: %v, want nil or ErrSessionEnded", err)
	}
	if err := sess.Close(s.ctx); err != nil {
		s.Errorf("Close once more: %v", err)
	}
	sess.Abandon(s.ctx)
	s.gone(s.line)
}

func closeRemovesAtOnce(s *scene) {
	sess, _ := s.session()
	for range 3 {
		s.join(sess)
	}
	if err := sess.Close(s.ctx); err != nil {
		s.Fatalf("Close: %v", err)
	}
	if n := s.svc.Stored(s, s.line); len(n) > 0 {
		s.Errorf("stored when Close has returned: %q", n)
	}
	if !ended(sess) {
		s.Error("Done is open after Close")
	}
}

func driverCloseEndsSessions(s *scene) {
	l := s.connect()
	a, b := s.open(l), s.open(l)
	s.join(a)
	me, _ := s.join(b)
	holder := s.watch(me)
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		s.Errorf("Close: %v", err)
	}
	if n := s.svc.Stored(s, s.line); len(n) > 0 {
		s.Errorf("stored when the driver is closed: %q", n)
	}
	if !ended(a) || !ended(b) {
		s.Error("Done is open after the driver was closed")
	}
	s.mustBeOver(soon, holder, "the driver is closed")
}

// mustBeOver fails unless the answer is ErrSessionEnded.
func (s *scene) mustBeOver(d time.Duration, c <-chan answer, what string) {
	s.Helper()
	if a := s.within(d, c, what); !errors.Is(a.err, driver.ErrSessionEnded) {
		s.Errorf("%s: ahead %v, error %v; want ErrSessionEnded", what, brief(a.ahead...), a.err)
	}
}

// A waiter that is told of a removal gives up; one whose session has ended joins again. Its node goes in both cases, and
// that news may come first.
func endIsNoRemoval(s *scene) {
	holder, _ := s.session()
	l := s.connect()
	s.needs("expire a session", l.Expire == nil)
	s.join(holder)
	for try := 1; ; try++ {
		sess := s.open(l)
		first, ahead := s.join(sess)
		second, _ := s.join(sess)
		waiter, watcher := s.await(first, ahead...), s.watch(second)
		time.Sleep(50 * time.Millisecond)
		l.Expire(s, sess)
		s.mustBeOver(s.outlives(), waiter, "a waiter's session has ended")
		a := s.within(s.outlives(), watcher, "a holder's session has ended")
		if errors.Is(a.err, driver.ErrSessionEnded) {
			return
		}
		// A holder must not doubt its removal for long. On a busy machine the news of the session's end may come later than that.
		if try == 5 || !errors.Is(a.err, driver.ErrRemoved) {
			s.Fatalf("a holder's session has ended: %v, want ErrSessionEnded", a.err)
		}
	}
}

func abandonLeavesToTTL(s *scene) {
	l := s.connect()
	sess, other := s.open(l), s.open(l)
	me, _ := s.join(sess)
	mine, ahead := s.join(other)
	waiter := s.await(mine, ahead...)
	holder := s.watch(me)
	sess.Abandon(s.ctx)
	if !ended(sess) {
		s.Error("Done is open after Abandon")
	}
	s.mustBeOver(soon, holder, "an abandoned session")
	// Its session was renewed within about the last third of the TTL, so the node still stands for a while.
	if time.Sleep(s.svc.TTL / 5); len(s.svc.Stored(s, s.line)) != 2 {
		s.Error("abandoning the session removed its node at once")
	}
	if s.silenceEnds(l, answered(waiter, "who waits behind an abandoned node has its turn")) {
		s.turn(s.outlives(), waiter, "the one behind an abandoned node")
	}
	if ended(other) {
		s.Error("the driver's other session has ended")
	}
}

// A place that was left, or whose join was given up, does not stay in the way until the TTL.
func abandonTakesAway(s *scene) {
	for _, d := range []Direction{Requests, Replies} {
		s.line = s.anotherLine()
		sess, l := s.session()
		s.needs("freeze a link", l.Freeze == nil)
		s.join(sess)
		left, _ := s.join(sess)
		thaw := l.Freeze(d)
		ctx, cancel := context.WithTimeout(s.ctx, 20*time.Millisecond)
		_ = left.Leave(ctx, false)
		_, _, err := sess.Join(ctx, s.entry("lock"))
		cancel()
		if err == nil {
			s.Fatalf("freeze %d: it joined without an answer", d)
		}
		time.AfterFunc(100*time.Millisecond, thaw)
		ctx, cancel = context.WithTimeout(s.ctx, s.patience)
		sess.Abandon(ctx)
		cancel()
		if n := s.svc.Stored(s, s.line); len(n) > 1 {
			s.Errorf("freeze %d: stored are %q, want the one that stands there", d, n)
		}
		thaw()
	}
}
