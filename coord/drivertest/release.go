package drivertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Obligation 6.
var releases = []scenario{
	{name: "a second release does not touch the newer node", run: leaveTwice},
	{name: "a removal does not touch the newer node", run: removeTwice},
	{name: "under every fate", run: leaveUnderFate},
	{name: "applied late, when the line has been joined again", run: leaveAppliedLate},
	{name: "in an ended context", run: leaveInEndedContext},
	{name: "in a frozen link", run: leaveInFrozenLink},
	{name: "while the link is cut", run: leaveWhileCut},
}

// only fails unless the line shows exactly this node.
func (s *scene) only(l *Link, me driver.Node) {
	s.Helper()
	if nodes := s.look(l); len(nodes) != 1 || nodes[0].ID != me.ID {
		s.Errorf("Line shows %v, want %v", brief(nodes...), brief(me))
	}
}

func leaveTwice(s *scene) {
	sess, l := s.session()
	old, _ := s.join(sess)
	s.leave(old, true)
	s.leave(old, true)
	newer, _ := s.join(sess)
	if newer.Node().ID == old.Node().ID {
		s.Errorf("the id %q was used again", old.Node().ID)
	}
	for range 3 {
		s.leave(old, true)
	}
	s.only(l, newer.Node())

	// Two nodes of one session stand in line. The first is released, and then released again.
	second, _ := s.join(sess)
	s.leave(newer, true)
	s.leave(newer, true)
	s.only(l, second.Node())
	s.leave(second, true)
	s.gone(s.line)
}

// Deleting by name alone takes away the node that has that name now (etcd #22082).
func removeTwice(s *scene) {
	sess, _ := s.session()
	_, operator := s.session()
	old, _ := s.join(sess)
	shown := s.look(operator)
	s.remove(operator, shown[0])
	newer, _ := s.join(sess)
	for _, n := range []driver.Node{old.Node(), shown[0]} {
		if err := operator.Remove(s.ctx, n); !errors.Is(err, driver.ErrRemoved) {
			s.Errorf("Remove of a node that is gone: %v, want ErrRemoved", err)
		}
	}
	s.leave(old, false)
	s.only(operator, newer.Node())
}

func leaveUnderFate(s *scene) {
	sess, l := s.session()
	s.needs("decide the fate of requests", l.Fate == nil)
	for _, fates := range [][]Fate{{LostBefore}, {LostAfter}, {AppliedLate}, {LostBefore, LostBefore, LostBefore}, {LostBefore, LostAfter}} {
		stays, _ := s.join(sess)
		me, _ := s.join(sess)
		for _, f := range fates {
			l.Fate(f)
		}
		s.leave(me, true)
		s.leave(me, true)
		s.eventually(s.patience, fmt.Sprintf("%v: the node goes", fates), func() bool { return len(s.svc.Stored(s, s.line)) == 1 })
		s.only(l, stays.Node())
		s.leave(stays, true)
	}
	s.gone(s.line)
}

func leaveAppliedLate(s *scene) {
	sess, l := s.session()
	s.needs("decide the fate of requests", l.Fate == nil)
	me, _ := s.join(sess)
	met := l.Fate(AppliedLate)
	ctx, cancel := context.WithCancel(s.ctx)
	left := make(chan error, 1)
	go func() { left <- me.Leave(ctx, true) }()
	s.wait(s.patience, met, "the leave meets its fate")
	cancel()
	<-left
	newer, _ := s.join(sess)
	time.Sleep(2 * Late)
	s.only(l, newer.Node())
	s.leave(newer, true)
	s.gone(s.line)
}

func leaveInEndedContext(s *scene) {
	sess, _ := s.session()
	me, _ := s.join(sess)
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	_ = me.Leave(ctx, true)
	s.gone(s.line)
}

func leaveInFrozenLink(s *scene) {
	sess, l := s.session()
	s.needs("freeze a link", l.Freeze == nil)
	for _, d := range []Direction{Requests, Replies, Both} {
		me, _ := s.join(sess)
		thaw := l.Freeze(d)
		ctx, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
		if err := me.Leave(ctx, true); err == nil {
			s.Errorf("freeze %d: Leave said that the service confirmed it", d)
		}
		cancel()
		thaw()
		s.gone(s.line)
		if ended(sess) {
			s.Fatalf("freeze %d: a leave that took a while has ended the session", d)
		}
	}
}

func leaveWhileCut(s *scene) {
	sess, l := s.session()
	s.needs("cut a link", l.Cut == nil)
	me, _ := s.join(sess)
	stays, _ := s.join(sess)
	heal := l.Cut()
	ctx, cancel := context.WithTimeout(s.ctx, 20*time.Millisecond)
	_ = me.Leave(ctx, true)
	cancel()
	heal()
	s.eventually(s.svc.TTL/2+s.patience, "the node goes", func() bool { return len(s.svc.Stored(s, s.line)) == 1 })
	s.only(l, stays.Node())
}
