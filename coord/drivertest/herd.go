package drivertest

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Obligation 5: a release wakes only those who may now go, and costs the same however long the line is.
var noHerd = []scenario{
	{name: "a hand-off costs the same in a long line", alone: true, run: handOffInLongLine},
	{name: "a join costs the same in a long line", alone: true, run: joinInLongLine},
	{name: "a waiter in the middle that leaves wakes one", alone: true, run: middleWakesOne},
	{name: "nobody is woken when somebody joins", alone: true, run: joinWakesNobody},
	{name: "many who wait ask little", alone: true, run: idleCrowdIsQuiet},
}

// A waiter does not rely on its watches alone and asks now and then. Two thousand once did so 1,603 times a second.
func idleCrowdIsQuiet(s *scene) {
	l := s.connect()
	s.needs("count traffic", l.Traffic == nil)
	if !waitQuietly(l) {
		s.Skip("the strength says that waiters poll")
	}
	c := s.crowd(1, crowdSize())
	l = c.links[0]
	time.Sleep(s.svc.TTL) // until all that is due soon after a join is over
	const idle = 2 * time.Second
	before := l.Traffic()
	time.Sleep(idle)
	if asked := l.Traffic().Sub(before).Reads; asked > 100*int(idle/time.Second) {
		s.Errorf("%d who wait asked %d times in %v", len(c.places), asked, idle)
	}
}

// handOffs makes a few hand-offs in a line of n waiters. It returns the least that one cost at the waiters' link, because
// of many waiters some always poll. But all events count, because nobody should be told without need.
func (s *scene) handOffs(n, turns int) (cost Traffic) {
	s.Helper()
	head, _ := s.session()
	me, _ := s.join(head)
	c := s.crowd(1, n)
	sess, l := c.sessions[0], c.links[0]
	time.Sleep(100 * time.Millisecond) // until all have set their watches

	within := soon
	if !waitQuietly(l) { // there is no event that it could miss
		within = s.patience
	}
	leave := func() { s.leave(me, true) }
	start, woken := l.Traffic(), c.wakeUps.Load()
	for i := range turns {
		before := l.Traffic()
		leave()
		s.turn(within, c.turns[i], fmt.Sprintf("number %d of %d", i, n))
		spent := l.Traffic().Sub(before)
		if i == 0 {
			cost = spent
		}
		cost = Traffic{
			Writes: min(cost.Writes, spent.Writes), Reads: min(cost.Reads, spent.Reads),
			Sent: min(cost.Sent, spent.Sent), Received: min(cost.Received, spent.Received),
		}
		time.Sleep(10 * time.Millisecond) // for others that might also be woken
		leave = func() { s.leave(c.places[i], true) }
	}
	all := l.Traffic().Sub(start)
	cost.Events = (all.Events + turns - 1) / turns
	// Each grant is one wake-up. One in ten may be woken for nothing, as by a poll.
	if woken := c.wakeUps.Load() - woken; woken > int64(turns)+int64(turns)/10+1 {
		s.Errorf("%d hand-offs in a line of %d woke %d", turns, n, woken)
	}
	if err := sess.Close(s.ctx); err != nil {
		s.Errorf("Close: %v", err)
	}
	return cost
}

func handOffInLongLine(s *scene) {
	l := s.connect()
	s.needs("count traffic", l.Traffic == nil)
	many := crowdSize()
	if !waitQuietly(l) {
		many /= 4 // they keep the machine busy while they wait
	}
	short := s.handOffs(2, 2)
	s.line = s.anotherLine()
	long := s.handOffs(many, 20)
	s.Logf("a hand-off with 2 waiting: %+v; with %d: %+v", short, many, long)
	if !waitQuietly(l) {
		return // how many were woken has been checked
	}
	if long.Events > short.Events+1 || long.Requests() > short.Requests()+1 {
		s.Errorf("a hand-off cost %+v with 2 waiting, %+v with %d", short, long, many)
	}
	if long.Sent > 2*short.Sent+512 || long.Received > 2*short.Received+512 {
		s.Errorf("a hand-off took more bytes with %d waiting: %+v, with 2 %+v", many, long, short)
	}
}

func joinInLongLine(s *scene) {
	sess, l := s.session()
	s.needs("count traffic", l.Traffic == nil)
	cost := func() int {
		least := 1 << 30
		for range 5 {
			before := l.Traffic()
			me, _ := s.join(sess)
			least = min(least, l.Traffic().Sub(before).Requests())
			s.leave(me, false)
		}
		return least
	}
	s.join(sess)
	short := cost()
	for range crowdSize() / 2 {
		s.join(sess)
	}
	if long := cost(); long > short {
		s.Errorf("a join took %d requests in a line of one, %d in a long one", short, long)
	}
}

func middleWakesOne(s *scene) {
	c := s.crowd(1, crowdSize()/4)
	middle := len(c.places) / 2
	time.Sleep(100 * time.Millisecond)
	l := c.links[0]
	var traffic Traffic
	if l.Traffic != nil {
		traffic = l.Traffic()
	}
	before := c.wakeUps.Load()
	s.leave(c.places[middle], false)
	time.Sleep(200 * time.Millisecond)
	if l.Traffic != nil && waitQuietly(l) {
		if t := l.Traffic().Sub(traffic); t.Events+t.Reads > len(c.places)/4 {
			s.Errorf("when one in the middle of %d left: %+v", len(c.places), t)
		}
	}
	// The one that left is also told, if it still waits.
	if woken := c.wakeUps.Load() - before; woken < 1 || woken > 3 {
		s.Errorf("%d were woken when one in the middle of %d left, want the one behind", woken, len(c.places))
	}
}

func joinWakesNobody(s *scene) {
	sess, l := s.session()
	me, _ := s.join(sess)
	holder := s.watch(me)
	c := s.crowd(1, 10)
	time.Sleep(100 * time.Millisecond)
	var woken atomic.Int64
	woken.Store(c.wakeUps.Load())
	var before Traffic
	if l.Traffic != nil {
		before = l.Traffic()
	}
	other, _ := s.session()
	for range 20 {
		n, _ := s.join(other)
		defer func() { _ = n.Leave(s.ctx, false) }()
	}
	s.noAnswer(50*time.Millisecond, holder, "somebody joins behind a holder")
	if more := c.wakeUps.Load() - woken.Load(); more > 1 {
		s.Errorf("%d were woken when others joined behind", more)
	}
	if l.Traffic != nil {
		if spent := l.Traffic().Sub(before); spent.Events > 1 {
			s.Errorf("20 joins behind told the holder of %d events", spent.Events)
		}
	}
}
