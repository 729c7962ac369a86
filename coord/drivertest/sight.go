package drivertest

import (
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// A look may show more than was asked for, but never misses a node that stands in the way.
var sights = []scenario{
	{name: "the nearest of some kinds", run: nearestOfKinds},
	{name: "all of them", run: allOfThem},
	{name: "as many as are asked for", run: asManyAsAsked},
	{name: "nobody of the kinds", run: nobodyOfKinds},
	{name: "the nearest of every kind", run: nearestOfAll},
	{name: "after a wait as after a join", run: sightAfterWait},
	{name: "nobody behind is not said when there may be somebody", run: lastInLine},
}

// inOrder fails unless the nodes are in order and all are ahead of me.
func (s *scene) inOrder(me driver.Place, ahead []driver.Node) {
	s.Helper()
	last := before
	for _, n := range ahead {
		if n.Token <= last || n.Token >= me.Node().Token || n.ID == "" || n.Line != me.Node().Line {
			s.Errorf("ahead of %v: %v, want them in order", brief(me.Node()), brief(ahead...))
			return
		}
		last = n.Token
	}
}

// file makes nodes of these kinds join, in order.
func (s *scene) file(sess driver.Session, kinds ...string) []driver.Place {
	s.Helper()
	var all []driver.Place
	for _, k := range kinds {
		n, _ := s.joinAs(sess, s.entry(k))
		all = append(all, n)
	}
	return all
}

// nearest returns the last node within sight.
func nearest(sight driver.Sight, ahead []driver.Node) (n driver.Node, ok bool) {
	for i := len(ahead) - 1; i >= 0; i-- {
		if sight.Sees(ahead[i].Kind) {
			return ahead[i], true
		}
	}
	return driver.Node{}, false
}

func nearestOfKinds(s *scene) {
	sess, _ := s.session()
	all := s.file(sess, "W", "R", "W", "R", "R")
	e := s.entry("R")
	e.Sight = driver.Sight{Ignore: []string{"R"}}
	me, ahead := s.joinAs(sess, e)
	s.inOrder(me, ahead)
	if n, ok := nearest(e.Sight, ahead); !ok || n.ID != all[2].Node().ID {
		s.Errorf("the nearest writer in %v should be %v", brief(ahead...), brief(all[2].Node()))
	}
}

func allOfThem(s *scene) {
	sess, _ := s.session()
	all := s.file(sess, "S1of3", "S2of3", "S1of4", "S1of3")
	e := s.entry("S1of3")
	e.Sight = driver.Sight{Nearest: driver.All}
	me, ahead := s.joinAs(sess, e)
	s.inOrder(me, ahead)
	if len(ahead) != len(all) {
		s.Fatalf("ahead %v, want %v", brief(ahead...), brief(nodesOf(all)...))
	}
	for i := range all {
		if ahead[i].ID != all[i].Node().ID || ahead[i].Kind != all[i].Node().Kind {
			s.Errorf("ahead %v, want %v", brief(ahead...), brief(nodesOf(all)...))
		}
	}

	mixed := s.entry("R")
	mixed.Line = s.anotherLine()
	mixed.Sight = driver.Sight{Ignore: []string{"R"}, Nearest: driver.All}
	s.line = mixed.Line
	want := s.file(sess, "W", "R", "lead", "R", "W")
	_, ahead = s.joinAs(sess, mixed)
	for _, i := range []int{0, 2, 4} {
		if !standsIn(ahead, want[i].Node()) {
			s.Errorf("ahead %v, want %v among them", brief(ahead...), brief(want[i].Node()))
		}
	}
}

func asManyAsAsked(s *scene) {
	sess, _ := s.session()
	kinds := []string{"S1of3", "W", "S2of3", "R", "S1of4", "R", "S1of3", "lock"}
	all := s.file(sess, kinds...)
	for _, c := range []struct {
		sight driver.Sight
		want  []int
	}{
		{driver.Sight{Nearest: 3}, []int{5, 6, 7}},
		{driver.Sight{Nearest: 3, Ignore: []string{"R"}}, []int{4, 6, 7}},
		{driver.Sight{Nearest: 100, Ignore: []string{"R"}}, []int{0, 1, 2, 4, 6, 7}},
	} {
		e := s.entry("S1of3")
		e.Sight = c.sight
		me, ahead := s.joinAs(sess, e)
		s.inOrder(me, ahead)
		for _, i := range c.want {
			if !standsIn(ahead, all[i].Node()) {
				s.Errorf("with %+v: ahead %v, want %v among them", c.sight, brief(ahead...), brief(all[i].Node()))
			}
		}
		s.leave(me, false)
	}

	// A node that was amended out of sight, or is foreign, must not be returned in place of one that is in the way.
	s.amend(all[7], "R", nil)
	if s.svc.PlantForeign != nil {
		s.svc.PlantForeign(s, s.line)
	}
	e := s.entry("S1of3")
	e.Sight = driver.Sight{Nearest: 2, Ignore: []string{"R"}}
	me, ahead := s.joinAs(sess, e)
	if !standsIn(ahead, all[4].Node()) || !standsIn(ahead, all[6].Node()) {
		s.Errorf("ahead %v, want %v and %v among them", brief(ahead...), brief(all[4].Node()), brief(all[6].Node()))
	}
	s.leave(me, false)
}

func nobodyOfKinds(s *scene) {
	sess, _ := s.session()
	s.file(sess, "R", "R", "R")
	e := s.entry("R")
	e.Sight = driver.Sight{Ignore: []string{"R"}}
	me, ahead := s.joinAs(sess, e)
	if n, ok := nearest(e.Sight, ahead); ok {
		s.Errorf("%v sees %v", brief(me.Node()), brief(n))
	}
	s.joinAs(sess, s.entry("W")) // behind me
	waiter := s.watch(me)
	s.noAnswer(50*time.Millisecond, waiter, "a reader that holds")
}

func nearestOfAll(s *scene) {
	a, _ := s.session()
	b, _ := s.session()
	var last driver.Node
	for i, kind := range []string{"lock", "R", "W", "S1of2", "lead", "lock"} {
		sess := a
		if i%2 == 1 {
			sess = b
		}
		me, ahead := s.joinAs(sess, s.entry(kind))
		s.inOrder(me, ahead)
		if n, ok := nearest(driver.Sight{}, ahead); ok != (i > 0) || n.ID != last.ID || n.Kind != last.Kind {
			s.Errorf("right ahead of %v is %v, want %v", brief(me.Node()), brief(n), brief(last))
		}
		last = me.Node()
	}
}

func sightAfterWait(s *scene) {
	sess, _ := s.session()
	all := s.file(sess, "W", "R", "W", "R")
	e := s.entry("R")
	e.Sight = driver.Sight{Ignore: []string{"R"}}
	me, _ := s.joinAs(sess, e)
	waiter := s.awaitIn(s.ctx, me, all[2].Node())
	s.leave(all[2], false)
	a := s.within(soon, waiter, "the nearest writer gives up")
	s.inOrder(me, a.ahead)
	if n, ok := nearest(e.Sight, a.ahead); a.err != nil || !ok || n.ID != all[0].Node().ID {
		s.Fatalf("ahead %v, error %v; want the writer %v", brief(a.ahead...), a.err, brief(all[0].Node()))
	}
	waiter = s.awaitIn(s.ctx, me, all[0].Node())
	s.leave(all[0], true)
	a = s.within(soon, waiter, "the last writer leaves")
	if _, ok := nearest(e.Sight, a.ahead); a.err != nil || ok {
		s.Fatalf("ahead %v, error %v; no writer stands", brief(a.ahead...), a.err)
	}
}

// If others may wait for my turn by the rule, I must know whether the look that let me in showed somebody behind me. Here
// the answer to a join is lost, and another one joins before the first can look.
func lastInLine(s *scene) {
	sess, l := s.session()
	behind, _ := s.session()
	s.needs("freeze and cut a link", l.Freeze == nil || l.Cut == nil)
	first, _ := s.joinAs(sess, s.entry("S1of3"))
	e := s.entry("S1of3")
	e.Sight = driver.Sight{Nearest: driver.All}
	thaw := l.Freeze(Replies)
	defer thaw()
	type answer struct {
		me  driver.Place
		err error
	}
	joined := make(chan answer, 1)
	go func() {
		me, _, err := sess.Join(s.ctx, e)
		joined <- answer{me, err}
	}()
	for len(s.svc.Stored(s, s.line)) < 2 && s.ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	next, _ := s.joinAs(behind, s.entry("S1of3"))
	heal := l.Cut()
	thaw()
	heal()
	a := <-joined
	if a.err != nil {
		s.Fatalf("Join: %v", a.err)
	}
	if a.me.Last() && next.Node().Token > a.me.Node().Token {
		s.Errorf("%v stands behind %v, which is said to be the last", brief(next.Node()), brief(a.me.Node()))
	}
	s.leave(first, true)
	s.leave(a.me, false)
	s.leave(next, false)
	s.gone(s.line)
}
