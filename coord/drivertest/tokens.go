package drivertest

import (
	"context"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Obligation 2.
var tokensRise = []scenario{
	{name: "across sessions", run: tokensAcrossSessions},
	{name: "across an emptied line", run: tokensAcrossEmptiedLine},
	{name: "across a line forgotten and used again", run: tokensAcrossForgottenLine},
	{name: "across joins that failed", run: tokensAcrossFailedJoins},
	{name: "in the order of the line", run: tokensOrderTheLine},
	{name: "across the end of the service's counter", run: tokensAcrossTheEnd},
}

// rises fails unless a token is above the previous one.
func (s *scene) rises(last *driver.Token, me driver.Node) {
	s.Helper()
	if me.Token <= *last {
		s.Errorf("token %d comes after %d", me.Token, *last)
	}
	*last = me.Token
}

const before driver.Token = -1 << 63

func tokensAcrossSessions(s *scene) {
	last := before
	l := s.connect()
	a, b := s.open(l), s.open(l)
	c, _ := s.session()
	for range 3 {
		for _, sess := range []driver.Session{a, b, c} {
			me, _ := s.join(sess)
			s.rises(&last, me.Node())
		}
	}
	if err := a.Close(s.ctx); err != nil {
		s.Fatalf("Close: %v", err)
	}
	me, _ := s.join(b)
	s.rises(&last, me.Node())
	d, _ := s.session()
	me, _ = s.join(d)
	s.rises(&last, me.Node())
}

func tokensAcrossEmptiedLine(s *scene) {
	last := before
	for range 3 {
		sess, _ := s.session()
		for range 3 {
			me, _ := s.join(sess)
			s.rises(&last, me.Node())
			s.leave(me, true)
		}
		me, _ := s.join(sess)
		s.rises(&last, me.Node())
		if err := sess.Close(s.ctx); err != nil {
			s.Fatalf("Close: %v", err)
		}
	}
}

func tokensAcrossForgottenLine(s *scene) {
	s.needs("make the service forget a line", s.svc.Forget == nil)
	last := before
	sess, _ := s.session()
	for range 3 {
		for range 3 {
			me, _ := s.join(sess)
			s.rises(&last, me.Node())
			s.leave(me, true)
		}
		s.svc.Forget(s, s.line)
	}
	other, _ := s.session()
	me, _ := s.join(other)
	s.rises(&last, me.Node())
}

func tokensAcrossFailedJoins(s *scene) {
	sess, l := s.session()
	s.needs("decide the fate of requests", l.Fate == nil)
	last := before
	for _, f := range []Fate{LostBefore, LostAfter, AppliedLate} {
		me, _ := s.join(sess)
		s.rises(&last, me.Node())
		met := l.Fate(f)
		ctx, cancel := context.WithCancel(s.ctx)
		go func() {
			<-met
			cancel()
		}()
		if me, _, err := sess.Join(ctx, s.entry("lock")); err == nil {
			s.rises(&last, me.Node())
		}
		cancel()
		if ended(sess) {
			sess = s.open(l)
		}
		me, _ = s.join(sess)
		s.rises(&last, me.Node())
	}
}

func tokensOrderTheLine(s *scene) {
	sess, l := s.session()
	other, _ := s.session()
	joined := append(s.joinTogether(sess, 10), s.joinTogether(other, 10)...)
	nodes := s.look(l)
	if len(nodes) != len(joined) {
		s.Fatalf("Line shows %d nodes, %d joined", len(nodes), len(joined))
	}
	last := before
	for _, n := range nodes {
		s.rises(&last, n)
	}
}

// etcd's revisions have no end. ZooKeeper's counter sticks at 2147483647, or goes on below zero on servers before 3.6
// (ZOOKEEPER-3249): the next to join would sort beside or before the holder.
func tokensAcrossTheEnd(s *scene) {
	s.needs("bring the counter of a line near its end", s.svc.NearEnd == nil)
	sess, _ := s.session()
	last := before
	me, _ := s.join(sess)
	s.rises(&last, me.Node())
	s.leave(me, true)
	s.svc.NearEnd(s, s.line)
	for range 20 {
		ctx, cancel := context.WithTimeout(s.ctx, s.patience)
		me, ahead, err := sess.Join(ctx, s.entry("lock"))
		cancel()
		if err != nil {
			s.Fatalf("Join near the end: %v", err)
		}
		if len(ahead) > 0 {
			s.Errorf("in an empty line %v are ahead", brief(ahead...))
		}
		s.rises(&last, me.Node())
		s.leave(me, true)
		time.Sleep(time.Millisecond)
	}
}
