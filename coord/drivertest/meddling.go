package drivertest

import (
	"context"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Somebody else who has the right, or an operator with the service's own tool, writes to a contender's node. That says
// nothing about whose turn it is, and the node stays its owner's.
var meddlings = []scenario{
	{name: "to one in the middle, which gives up", run: middleLeaves(func(s *scene, t *three) {
		s.meddle()
		s.leave(t.middle, false)
	})},
	{name: "to one in the middle, which dies", run: middleLeaves(func(s *scene, t *three) {
		s.needs("expire a session", t.link.Expire == nil)
		s.meddle()
		t.link.Expire(s, t.sess)
		t.sess = s.open(t.link)
	})},
	{name: "to one in the middle, which gives up unheard", run: unheard(func(s *scene, t *three) {
		s.meddle()
		s.leave(t.middle, false)
	})},
	{name: "to a holder and a waiter", run: meddleWithPair},
	{name: "to a node whose join has no answer yet", run: meddleWithJoin},
}

// meddle writes to all nodes in the line.
func (s *scene) meddle() {
	s.Helper()
	s.needs("write to others' nodes", s.svc.Meddle == nil)
	s.svc.Meddle(s, s.line)
}

func meddleWithPair(s *scene) {
	p := s.pair()
	holder := s.watch(p.ahead)
	waiter := s.queue(p.behind, []driver.Node{p.ahead.Node()}, nil)
	for range 3 {
		s.meddle()
		s.noAnswer(50*time.Millisecond, waiter, "somebody writes to the node ahead")
		s.noAnswer(0, holder, "somebody writes to the own node")
	}
	changed := s.amend(p.ahead, "lock", []byte("its owner has the last word"))
	n := s.look(p.behindLink)
	if len(n) != 2 || n[0].ID != changed.ID || string(n[0].Data) != string(changed.Data) || n[1].ID != p.behind.Node().ID {
		s.Errorf("Line shows %+v, want %+v and %v", n, changed, brief(p.behind.Node()))
	}
	s.meddle()
	s.leave(p.ahead, true)
	s.turn(soon, waiter, "the holder has left")
	s.meddle()
	s.leave(p.behind, true)
	s.gone(s.line)
}

// A join that later looks for its node must find it, although the node no longer says what was written at the join.
func meddleWithJoin(s *scene) {
	sess, l := s.session()
	s.needs("freeze and cut a link, and write to others' nodes", l.Freeze == nil || l.Cut == nil || s.svc.Meddle == nil)
	other, _ := s.session()
	stays, _ := s.join(other) // so that the line exists: a join that has to make it needs an answer before there is a node
	former, _ := s.join(sess)
	s.leave(former, false)
	for _, wanted := range []bool{true, false} {
		thaw := l.Freeze(Replies)
		defer thaw()
		ctx, giveUp := context.WithCancel(s.ctx)
		defer giveUp()
		joined := make(chan driver.Place, 1)
		go func() {
			me, _, err := sess.Join(ctx, s.entry("lock"))
			if (err == nil) != wanted {
				s.Errorf("Join: %v", err)
			}
			joined <- me
		}()
		s.queued(2)
		s.meddle()
		heal := l.Cut()
		if !wanted {
			giveUp()
		}
		thaw()
		heal()
		if me := <-joined; me != nil {
			s.settles(s.line, 2)
			if n := s.look(l); len(n) != 2 || n[1].ID != me.Node().ID {
				s.Errorf("Line shows %v, want %v last", brief(n...), brief(me.Node()))
			}
			s.leave(me, false)
		}
		s.settles(s.line, 1)
	}
	s.leave(stays, true)
	s.gone(s.line)
}
