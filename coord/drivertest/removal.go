package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Obligation 9.
var removals = []scenario{
	{name: "of a holder", run: holderRemoved},
	{name: "of a holder whose requests stall", alone: true, run: holderRemovedWhileRequestsStall},
	{name: "of a waiter", run: waiterRemoved},
	{name: "of a waiter before it waits", run: removedBeforeWait},
	{name: "of a waiter whose turn it is at the same time", run: removedAtItsTurn},
	{name: "of a waiter, and then its turn, in one burst of news", run: removedThenTurnUnheard},
	{name: "while the link is cut", run: removedWhileCut},
	{name: "is all that a holder is told of", run: holderHearsNothingElse},
}

// mustBeRemoved fails unless the answer is ErrRemoved.
func (s *scene) mustBeRemoved(d time.Duration, c <-chan answer, what string) {
	s.Helper()
	if a := s.within(d, c, what); !errors.Is(a.err, driver.ErrRemoved) {
		s.Fatalf("%s: ahead %v, error %v; want ErrRemoved", what, brief(a.ahead...), a.err)
	}
}

func holderRemoved(s *scene) {
	sess, _ := s.session()
	_, operator := s.session()
	me, _ := s.join(sess)
	holder := s.watch(me)
	s.noAnswer(30*time.Millisecond, holder, "nothing happens")
	s.remove(operator, s.look(operator)[0])
	s.mustBeRemoved(soon, holder, "the holder's node was removed")
	s.mustBeRemoved(soon, s.watch(me), "asked once more")
	s.leave(me, true)
	if ended(sess) {
		s.Error("the session has ended with the node")
	}
}

// The news is enough: a holder that first asked the service would go on believing until its deadline if the link stalled
// just then.
func holderRemovedWhileRequestsStall(s *scene) {
	sess, link := s.session()
	s.needs("freeze a link", link.Freeze == nil)
	_, operator := s.session()
	me, _ := s.join(sess)
	holder := s.watch(me)
	s.noAnswer(50*time.Millisecond, holder, "nothing happens")
	thaw := link.Freeze(Requests)
	s.remove(operator, s.look(operator)[0])
	if !waitQuietly(link) {
		s.noAnswer(s.svc.TTL/4, holder, "no request passes, and who polls hears nothing else")
		thaw()
		s.mustBeRemoved(soon, holder, "requests pass again")
		return
	}
	s.mustBeRemoved(min(soon, s.svc.TTL/4), holder, "the holder's node was removed, and no request passes")
	thaw()
}

func waiterRemoved(s *scene) {
	p := s.pair()
	waiter := s.await(p.behind, p.ahead.Node())
	s.noAnswer(30*time.Millisecond, waiter, "nothing happens")
	s.remove(p.aheadLink, s.look(p.aheadLink)[1])
	s.mustBeRemoved(soon, waiter, "the waiter's node was removed")
	s.leave(p.behind, false)
	s.only(p.aheadLink, p.ahead.Node())
}

func removedBeforeWait(s *scene) {
	p := s.pair()
	s.remove(p.aheadLink, p.behind.Node())
	s.mustBeRemoved(soon, s.await(p.behind, p.ahead.Node()), "removed, then awaited")
	s.mustBeRemoved(soon, s.watch(p.behind), "removed, then awaited as a holder")
}

func removedAtItsTurn(s *scene) {
	p := s.pair()
	for range 10 {
		s.remove(p.aheadLink, p.behind.Node())
		s.leave(p.ahead, true)
		s.mustBeRemoved(soon, s.await(p.behind, p.ahead.Node()), "removed, and then nobody is ahead")
		p.join(s)

		waiter := s.await(p.behind, p.ahead.Node())
		time.Sleep(5 * time.Millisecond)
		s.remove(p.aheadLink, p.behind.Node())
		s.leave(p.ahead, true)
		s.mustBeRemoved(soon, waiter, "removed while waiting, and then nobody is ahead")
		p.join(s)
	}
}

// A Go select may pick the news of the node ahead first, although the news of the waiter's own node came before it.
func removedThenTurnUnheard(s *scene) {
	p := s.pair()
	s.needs("freeze a link", p.behindLink.Freeze == nil)
	for range 5 {
		waiter := s.await(p.behind, p.ahead.Node())
		time.Sleep(30 * time.Millisecond)
		thaw := p.behindLink.Freeze(Replies)
		s.remove(p.aheadLink, p.behind.Node())
		s.leave(p.ahead, true)
		time.Sleep(20 * time.Millisecond)
		thaw()
		s.mustBeRemoved(2*soon, waiter, "removed, then nobody ahead, unheard of")
		p.join(s)
	}
}

func removedWhileCut(s *scene) {
	p := s.pair()
	s.needs("cut a link", p.behindLink.Cut == nil)
	for _, wait := range []func() <-chan answer{
		func() <-chan answer { return s.await(p.behind, p.ahead.Node()) },
		func() <-chan answer { return s.watch(p.behind) },
	} {
		waiter := wait()
		time.Sleep(50 * time.Millisecond)
		heal := p.behindLink.Cut()
		s.remove(p.aheadLink, p.behind.Node())
		time.Sleep(s.svc.TTL / 10)
		heal()
		s.mustBeRemoved(2*soon, waiter, "removed while cut off")
		p.behind, _ = s.join(p.behindSess)
	}
}

func holderHearsNothingElse(s *scene) {
	sess, _ := s.session()
	me, _ := s.join(sess)
	ctx, cancel := context.WithCancel(s.ctx)
	holder := s.watchIn(ctx, me)
	other, _ := s.session()
	for range 3 {
		n, _ := s.join(other)
		s.leave(n, false)
	}
	s.noAnswer(s.svc.TTL, holder, "others come and go")
	cancel()
	if a := s.within(soon, holder, "its context ends"); !isCtx(a.err) {
		s.Errorf("Await: %v, want the context's error", a.err)
	}
	s.amend(me, "lock", []byte("the holder says something else of itself"))
	s.noAnswer(100*time.Millisecond, s.watch(me), "the node as amended")
}
