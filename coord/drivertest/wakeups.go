package drivertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Obligation 4.
var wakeUps = []scenario{
	{name: "the node left before the wait began", run: leftBeforeWait},
	{name: "the node leaves as the wait begins", run: leavesAsWaitBegins},
	{name: "the node left between two waits", run: leftBetweenWaits},
	{name: "the node dies", run: aheadDies},
	{name: "the node ahead gives up", run: aheadGivesUp},
	{name: "any of several nodes leaves", run: anyOfSeveral},
	{name: "many wait for the same node, and one gives up", run: sharedWait},
	{name: "the node leaves while the link is cut", run: leavesWhileCut},
	{name: "the node leaves while the link is frozen", run: leavesWhileFrozen},
	{name: "the watch is set while the link is cut", run: waitBeginsWhileCut},
	{name: "a line of many drains while links are cut", run: drainsWhileCut},
	{name: "a line of many drains while some give up", run: drainsWhileSomeGiveUp},
}

// pair is a node and the one right behind it, each in a session with a link of its own.
type pair struct {
	ahead, behind         driver.Place
	aheadSess, behindSess driver.Session
	aheadLink, behindLink *Link
}

func (s *scene) pair() (p pair) {
	s.Helper()
	p.aheadSess, p.aheadLink = s.session()
	p.behindSess, p.behindLink = s.session()
	p.join(s)
	return p
}

// join puts both in line.
func (p *pair) join(s *scene) {
	s.Helper()
	p.ahead, _ = s.join(p.aheadSess)
	var seen []driver.Node
	p.behind, seen = s.join(p.behindSess)
	if len(seen) != 1 || seen[0].ID != p.ahead.Node().ID || seen[0].Token != p.ahead.Node().Token || seen[0].Kind != p.ahead.Node().Kind {
		s.Fatalf("the second sees %v ahead, want %v", brief(seen...), brief(p.ahead.Node()))
	}
}

func leftBeforeWait(s *scene) {
	p := s.pair()
	for _, held := range []bool{true, false} {
		s.leave(p.ahead, held)
		s.turn(soon, s.await(p.behind, p.ahead.Node()), fmt.Sprintf("held %v", held))
		s.leave(p.behind, true)
		p.join(s)
	}
}

// etcd #11456 was such a case, and so are ZooKeeper watches that are set after the node has gone.
func leavesAsWaitBegins(s *scene) {
	p := s.pair()
	for i := range 40 {
		waiter := s.await(p.behind, p.ahead.Node())
		time.Sleep(rand.N(3 * time.Millisecond))
		s.leave(p.ahead, i%2 == 0)
		s.turn(soon, waiter, fmt.Sprintf("round %d", i))
		s.leave(p.behind, true)
		p.join(s)
	}
}

func leftBetweenWaits(s *scene) {
	p := s.pair()
	for _, held := range []bool{true, false} {
		ctx, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
		if a := s.within(s.patience, s.awaitIn(ctx, p.behind, p.ahead.Node()), "Await"); !isCtx(a.err) {
			s.Fatalf("Await: ahead %v, error %v; want the context's", brief(a.ahead...), a.err)
		}
		cancel()
		s.leave(p.ahead, held)
		s.turn(soon, s.await(p.behind, p.ahead.Node()), "the second Await")
		s.leave(p.behind, true)
		p.join(s)
	}
}

func aheadDies(s *scene) {
	p := s.pair()
	s.needs("expire a session", p.aheadLink.Expire == nil)
	waiter := s.await(p.behind, p.ahead.Node())
	time.Sleep(50 * time.Millisecond)
	p.aheadLink.Expire(s, p.aheadSess)
	s.turn(soon, waiter, "the node ahead has died")
}

func aheadGivesUp(s *scene) {
	p := s.pair()
	third, ahead := s.join(p.aheadSess)
	waiter := s.await(third, ahead[len(ahead)-1])
	s.leave(p.behind, false)
	a := s.within(soon, waiter, "the node in between gives up")
	if a.err != nil || len(a.ahead) != 1 || a.ahead[0].ID != p.ahead.Node().ID {
		s.Fatalf("ahead %v, error %v; want the head of the line, %v", brief(a.ahead...), a.err, brief(p.ahead.Node()))
	}
	waiter = s.await(third, a.ahead...)
	s.leave(p.ahead, true)
	s.turn(soon, waiter, "the head leaves")
}

func anyOfSeveral(s *scene) {
	a, _ := s.session()
	b, _ := s.session()
	for gone := range 3 {
		s.line = s.anotherLine()
		var some []driver.Place
		for range 3 {
			n, _ := s.joinAs(a, s.entry("S1of3"))
			some = append(some, n)
		}
		e := s.entry("S3of3")
		e.Sight = driver.Sight{Nearest: driver.All}
		me, ahead := s.joinAs(b, e)
		if len(ahead) != 3 {
			s.Fatalf("ahead are %v, want three", brief(ahead...))
		}
		waiter := s.awaitIn(s.ctx, me, ahead...)
		s.noAnswer(30*time.Millisecond, waiter, "nobody has left")
		s.leave(some[gone], false)
		w := s.within(soon, waiter, fmt.Sprintf("number %d of three has left", gone))
		if w.err != nil || len(w.ahead) != 2 || standsIn(w.ahead, some[gone].Node()) {
			s.Fatalf("ahead %v, error %v; want the two that stand", brief(w.ahead...), w.err)
		}
		for i, n := range some {
			if i != gone {
				s.leave(n, false)
			}
		}
		// A member that lags behind may report two departures one by one.
		for left := len(w.ahead); left > 0; left = len(w.ahead) {
			w = s.within(soon, s.awaitIn(s.ctx, me, w.ahead...), "all have left")
			if w.err != nil || len(w.ahead) >= left {
				s.Fatalf("all have left: ahead %v, error %v; want fewer each time", brief(w.ahead...), w.err)
			}
		}
	}
}

func sharedWait(s *scene) {
	holder, _ := s.session()
	sess, _ := s.session()
	w, _ := s.joinAs(holder, s.entry("W"))
	e := s.entry("R")
	e.Sight = driver.Sight{Ignore: []string{"R"}}
	ctx, cancel := context.WithCancel(s.ctx)
	var waiting []<-chan answer
	var quitter <-chan answer
	for i := range 20 {
		me, ahead := s.joinAs(sess, e)
		if !standsIn(ahead, w.Node()) {
			s.Fatalf("a reader sees %v ahead, want the writer %v", brief(ahead...), brief(w.Node()))
		}
		if i == 7 {
			quitter = s.awaitIn(ctx, me, w.Node())
			continue
		}
		waiting = append(waiting, s.awaitIn(s.ctx, me, w.Node()))
	}
	time.Sleep(50 * time.Millisecond)
	cancel()
	if a := s.within(soon, quitter, "Await of the one who gives up"); !isCtx(a.err) {
		s.Errorf("Await: %v, want the context's error", a.err)
	}
	s.leave(w, true)
	for i, c := range waiting {
		if a := s.within(soon, c, fmt.Sprintf("reader %d", i)); a.err != nil || standsIn(a.ahead, w.Node()) {
			s.Fatalf("reader %d: ahead %v, error %v; the writer has left", i, brief(a.ahead...), a.err)
		}
	}
}

func leavesWhileCut(s *scene) {
	p := s.pair()
	s.needs("cut a link", p.behindLink.Cut == nil)
	for _, held := range []bool{true, false} {
		waiter := s.await(p.behind, p.ahead.Node())
		time.Sleep(50 * time.Millisecond)
		heal := p.behindLink.Cut()
		s.leave(p.ahead, held)
		time.Sleep(s.svc.TTL / 10)
		heal()
		s.turn(2*soon, waiter, fmt.Sprintf("held %v", held))
		s.leave(p.behind, true)
		p.join(s)
	}
}

func leavesWhileFrozen(s *scene) {
	p := s.pair()
	s.needs("freeze a link", p.behindLink.Freeze == nil)
	for _, d := range []Direction{Requests, Replies, Both} {
		for _, held := range []bool{true, false} {
			waiter := s.await(p.behind, p.ahead.Node())
			time.Sleep(50 * time.Millisecond)
			thaw := p.behindLink.Freeze(d)
			s.leave(p.ahead, held)
			time.Sleep(s.svc.TTL / 5)
			thaw()
			s.turn(2*soon, waiter, fmt.Sprintf("freeze %d, held %v", d, held))
			s.leave(p.behind, true)
			p.join(s)
		}
	}
}

func waitBeginsWhileCut(s *scene) {
	p := s.pair()
	s.needs("cut a link", p.behindLink.Cut == nil)
	heal := p.behindLink.Cut()
	waiter := s.await(p.behind, p.ahead.Node())
	time.Sleep(s.svc.TTL / 10)
	heal()
	s.noAnswer(100*time.Millisecond, s.merely(waiter, p.ahead.Node()), "the node ahead stands")
	s.leave(p.ahead, false)
	time.Sleep(20 * time.Millisecond) // by now the news has come, but nobody was listening
	s.turn(2*soon, s.queue(p.behind, []driver.Node{p.ahead.Node()}, nil), "the node ahead has left")
}

// merely drops answers that only say that the nodes ahead still stand, since Await may return early. It passes on all
// others.
func (s *scene) merely(c <-chan answer, stands driver.Node) <-chan answer {
	out := make(chan answer, 1)
	go func() {
		if a := <-c; a.err != nil || !standsIn(a.ahead, stands) {
			out <- a
		}
	}()
	return out
}

// crowd is a number of nodes that queue in a few sessions, each with a link of its own.
type crowd struct {
	links    []*Link
	sessions []driver.Session
	places   []driver.Place
	turns    []<-chan answer
	wakeUps  atomic.Int64
}

func (s *scene) crowd(sessions, n int) *crowd {
	s.Helper()
	c := &crowd{}
	for range sessions {
		sess, l := s.session()
		c.sessions, c.links = append(c.sessions, sess), append(c.links, l)
	}
	for i := range n {
		me, ahead := s.join(c.of(i))
		c.places = append(c.places, me)
		c.turns = append(c.turns, s.queue(me, ahead, &c.wakeUps))
	}
	return c
}

func (c *crowd) of(i int) driver.Session { return c.sessions[i%len(c.sessions)] }

func drainsWhileCut(s *scene) {
	c := s.crowd(3, 30)
	s.needs("cut a link", c.links[0].Cut == nil)
	stop := make(chan struct{})
	var cutter sync.WaitGroup
	defer cutter.Wait()
	defer close(stop)
	cutter.Go(func() {
		renewed := make([]time.Time, len(c.links)) // until when, when the link was cut last
		for i := 0; ; i = (i + 1) % len(c.links) {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
			until := c.sessions[i].Deadline()
			if until.Equal(renewed[i]) && time.Until(until) < 10*s.svc.TTL {
				continue // on a busy machine it has not yet come back since
			}
			renewed[i] = until
			heal := c.links[i].Cut()
			time.Sleep(rand.N(20 * time.Millisecond))
			heal()
		}
	})
	for i, turn := range c.turns {
		s.turn(s.patience, turn, fmt.Sprintf("number %d", i))
		s.leave(c.places[i], true)
	}
}

func drainsWhileSomeGiveUp(s *scene) {
	c := s.crowd(2, 30)
	var leaving sync.WaitGroup
	defer leaving.Wait()
	for i := 1; i < len(c.places); i += 3 {
		leaving.Go(func() {
			time.Sleep(rand.N(100 * time.Millisecond))
			_ = c.places[i].Leave(s.ctx, false)
		})
	}
	for i, turn := range c.turns {
		if i%3 == 1 {
			continue
		}
		s.turn(soon, turn, fmt.Sprintf("number %d", i))
		s.leave(c.places[i], true)
	}
}
