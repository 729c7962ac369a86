package drivertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// What First tells callers who watch a line without standing in it.
var firsts = []scenario{
	{name: "at once", run: firstAtOnce},
	{name: "as it changes", run: firstAsItChanges},
	{name: "not of what happens behind", run: firstNotBehind},
	{name: "what happened while the link was cut", run: firstAfterCut},
	{name: "what happened while the link was frozen", run: firstAfterFreeze},
	{name: "that the service is out of reach", run: firstOutOfReach},
	{name: "only of contenders of the line", run: firstOfContenders},
	{name: "of the last of many changes", run: firstOfMany},
	{name: "the whole line as it changes", run: allAsItChanges},
	{name: "the whole line, many at once", run: allOfMany},
	{name: "the whole line, after trouble", run: allAfterTrouble},
	{name: "watches that are given up", alone: true, run: firstGivenUp},
}

// FirstNode asks a driver for the first node of a line, or for one that differs from seen; the zero Node stands for nobody.
func FirstNode(ctx context.Context, d driver.Driver, line string, seen *driver.Node) (driver.Node, error) {
	var was *driver.Look
	if seen != nil {
		was = &driver.Look{}
		if seen.ID != "" {
			was.Nodes = []driver.Node{*seen}
		}
	}
	now, err := d.First(ctx, line, 1, was)
	if err != nil || len(now.Nodes) == 0 {
		return driver.Node{}, err
	}
	return now.Nodes[0], nil
}

// told is what a First returned.
type told struct {
	driver.Node
	err error
}

// first asks for the first node of the scene's line, or for one that differs from seen. It waits out temporary trouble.
func (s *scene) first(ctx context.Context, l *Link, seen *driver.Node) <-chan told {
	return s.firstWhere(ctx, l, seen, func(driver.Node) bool { return true })
}

// firstWhere asks again until it is told of a node that is wanted.
func (s *scene) firstWhere(ctx context.Context, l *Link, seen *driver.Node, wanted func(n driver.Node) bool) <-chan told {
	c := make(chan told, 1)
	line := s.line
	go func() {
		for {
			n, err := FirstNode(ctx, l, line, seen)
			switch {
			case err != nil && ctx.Err() == nil && !errors.Is(err, driver.ErrDenied):
				time.Sleep(10 * time.Millisecond)
			case err == nil && !wanted(n):
				seen = &n
			default:
				c <- told{n, err}
				return
			}
		}
	}()
	return c
}

// tells fails unless the answer is this node; the zero Node means that the line is empty.
func (s *scene) tells(d time.Duration, c <-chan told, want driver.Node, what string) driver.Node {
	s.Helper()
	got, ok := arrives(d, c)
	if !ok {
		s.Fatalf("%s: First has not returned within %v", what, d)
	}
	if got.err != nil || got.ID != want.ID || got.Kind != want.Kind || got.Token != want.Token ||
		string(got.Data) != string(want.Data) || got.Owner.Label != want.Owner.Label {
		s.Fatalf("%s: First returned %+v, error %v; want %+v", what, got.Node, got.err, want)
	}
	return got.Node
}

// comesTo fails unless the answers arrive at this node in the end. Until then they may be errors, while trouble lasts, or
// what was true in between.
func (s *scene) comesTo(l *Link, c <-chan told, want driver.Node, what string) driver.Node {
	s.Helper()
	for limit := time.After(2*soon + s.patience); ; {
		select {
		case got := <-c:
			if got.err == nil && got.ID == want.ID && string(got.Data) == string(want.Data) {
				return got.Node
			}
			if got.err != nil {
				time.Sleep(10 * time.Millisecond)
				c = s.first(s.ctx, l, nil)
			} else {
				c = s.first(s.ctx, l, &got.Node)
			}
		case <-limit:
			s.Fatalf("%s: First never told of %v", what, brief(want))
		}
	}
}

func (s *scene) tellsNothing(d time.Duration, c <-chan told, what string) {
	s.Helper()
	select {
	case got := <-c:
		s.Fatalf("%s: First returned %v, error %v; want no answer", what, brief(got.Node), got.err)
	case <-time.After(d):
	}
}

var nobody driver.Node

func firstAtOnce(s *scene) {
	sess, _ := s.session()
	l := s.connect()
	s.tells(soon, s.first(s.ctx, l, nil), nobody, "a line that nobody used")
	e := s.entry("lead")
	e.Data = []byte("10.0.0.1:80")
	me, _ := s.joinAs(sess, e)
	s.join(sess)
	s.tells(soon, s.first(s.ctx, l, nil), me.Node(), "a line of two")
	s.tells(soon, s.first(s.ctx, l, &nobody), me.Node(), "a line that was empty when it was seen")
	other := me.Node()
	other.Data = []byte("10.0.0.2:80")
	s.tells(soon, s.first(s.ctx, l, &other), me.Node(), "data that is no more")
	other = me.Node()
	other.ID = "another"
	s.tells(soon, s.first(s.ctx, l, &other), me.Node(), "a node that is no more")
}

func firstAsItChanges(s *scene) {
	sess, _ := s.session()
	l := s.connect()
	seen := nobody
	for round := range 3 {
		next := s.first(s.ctx, l, &seen)
		s.tellsNothing(30*time.Millisecond, next, "nothing happens")
		me, _ := s.joinAs(sess, s.entry("lead"))
		seen = s.tells(soon, next, me.Node(), fmt.Sprintf("round %d, one joins", round))

		next = s.first(s.ctx, l, &seen)
		time.Sleep(time.Duration(round) * 15 * time.Millisecond)
		s.amend(me, "lead", []byte("a value"))
		seen = s.tells(soon, next, me.Node(), "other data")

		next = s.first(s.ctx, l, &seen)
		time.Sleep(time.Duration(round) * 15 * time.Millisecond)
		s.amend(me, "R", []byte("a value"))
		seen = s.tells(soon, next, me.Node(), "another kind")

		behind, _ := s.join(sess)
		next = s.first(s.ctx, l, &seen)
		time.Sleep(time.Duration(round) * 15 * time.Millisecond)
		s.leave(me, round == 0)
		seen = s.tells(soon, next, behind.Node(), "the next one is first")

		next = s.first(s.ctx, l, &seen)
		time.Sleep(time.Duration(round) * 15 * time.Millisecond)
		s.leave(behind, true)
		seen = s.tells(soon, next, nobody, "the line is empty")
	}
}

func firstNotBehind(s *scene) {
	sess, _ := s.session()
	l := s.connect()
	s.join(sess)
	seen := <-s.first(s.ctx, l, nil)
	next := s.first(s.ctx, l, &seen.Node)
	behind, _ := s.join(sess)
	s.amend(behind, "lock", []byte("a value"))
	s.join(sess)
	s.leave(behind, false)
	s.tellsNothing(100*time.Millisecond, next, "others come and go behind")
}

func firstAfterCut(s *scene) {
	l := s.connect()
	s.needs("cut a link", l.Cut == nil)
	s.firstAfter(l, l.Cut)
}

func firstAfterFreeze(s *scene) {
	l := s.connect()
	s.needs("freeze a link", l.Freeze == nil)
	s.firstAfter(l, func() func() { return l.Freeze(Both) })
	s.firstAfter(l, func() func() { return l.Freeze(Replies) })
}

// firstAfter makes things happen while a watcher hears nothing.
func (s *scene) firstAfter(l *Link, trouble func() (heal func())) {
	s.Helper()
	sess, _ := s.session()
	me, _ := s.join(sess)
	seen := s.tells(soon, s.first(s.ctx, l, nil), me.Node(), "before")
	for round := range 2 {
		// What happened in between may or may not be reported.
		last := func(n driver.Node) bool { return n.ID != "" && (round == 0 || len(n.Data) > 0) }
		next := s.firstWhere(s.ctx, l, &seen, last)
		time.Sleep(50 * time.Millisecond)
		heal := trouble()
		if round == 0 {
			s.leave(me, true)
			me, _ = s.join(sess)
		} else {
			s.amend(me, "lock", []byte("a value"))
		}
		time.Sleep(s.svc.TTL / 10)
		heal()
		seen = s.comesTo(l, next, me.Node(), fmt.Sprintf("after the trouble, round %d", round))
	}
	s.leave(me, true)
	s.tells(soon, s.first(s.ctx, l, &seen), nobody, "the line is empty")
}

// A program that shows a leader must know that there may be another one by now.
func firstOutOfReach(s *scene) {
	sess, _ := s.session()
	me, _ := s.join(sess)
	limit := 3*s.svc.TTL + s.patience + 10*time.Second
	for _, trouble := range []struct {
		name  string
		begin func(*Link) (heal func())
	}{
		{"the link is cut", func(l *Link) func() { return l.Cut() }},
		{"no reply passes", func(l *Link) func() { return l.Freeze(Replies) }},
	} {
		l := s.connect()
		s.needs("cut and freeze a link", l.Cut == nil || l.Freeze == nil)
		seen := s.tells(soon, s.first(s.ctx, l, nil), me.Node(), "before")
		said := make(chan error, 1)
		go func() {
			_, err := FirstNode(s.ctx, l, s.line, &seen)
			said <- err
		}()
		time.Sleep(50 * time.Millisecond)
		heal := trouble.begin(l)
		select {
		case err := <-said:
			if err == nil || s.ctx.Err() != nil || errors.Is(err, driver.ErrDenied) {
				s.Errorf("%s: First returned %v, want an error that may pass", trouble.name, err)
			}
		case <-time.After(limit):
			s.Errorf("%s: First says nothing of it for %v", trouble.name, limit)
		}
		heal()
		s.comesTo(l, s.first(s.ctx, l, nil), me.Node(), "after "+trouble.name)
	}
}

func firstOfContenders(s *scene) {
	sess, _ := s.session()
	l := s.connect()
	next := s.first(s.ctx, l, &nobody)
	nested := s.entry("lock")
	nested.Line = s.line + "/nested"
	inner, _ := s.joinAs(sess, nested)
	if s.svc.PlantForeign != nil {
		s.svc.PlantForeign(s, s.line)
	}
	s.tellsNothing(100*time.Millisecond, next, "others than contenders turn up")
	me, _ := s.join(sess)
	s.tells(soon, next, me.Node(), "one joins")
	s.leave(inner, true)
	s.leave(me, true)
}

func firstOfMany(s *scene) {
	sess, _ := s.session()
	l := s.connect()
	watched := make(chan []driver.Node, 1)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	go func() {
		var all []driver.Node
		var seen driver.Node
		for string(seen.Data) != "the end" {
			got := <-s.first(ctx, l, &seen)
			if got.err != nil {
				s.Errorf("First: %v", got.err)
				break
			}
			all, seen = append(all, got.Node), got.Node
		}
		watched <- all
	}()
	var tokens []driver.Token
	for range 20 {
		me, _ := s.join(sess)
		tokens = append(tokens, me.Node().Token)
		s.leave(me, true)
	}
	me, _ := s.join(sess)
	s.amend(me, "lock", []byte("the end"))
	tokens = append(tokens, me.Node().Token)
	select {
	case all := <-watched:
		last := before
		for _, n := range all {
			if n.ID == "" {
				continue
			}
			if !slices.Contains(tokens, n.Token) || n.Token < last {
				s.Errorf("First told of %v after %d", brief(n), last)
			}
			last = n.Token
		}
		if len(all) == 0 || all[len(all)-1].Token != me.Node().Token {
			s.Errorf("First told of %v, the last is %v", brief(all...), brief(me.Node()))
		}
	case <-time.After(soon + time.Second):
		s.Error("First has not told of the last change")
	}
}

func firstGivenUp(s *scene) {
	sess, _ := s.session()
	l := s.connect()
	s.join(sess)
	seen := <-s.first(s.ctx, l, nil)
	s.grows(100, func() {
		ctx, cancel := context.WithTimeout(s.ctx, time.Millisecond)
		defer cancel()
		if _, err := FirstNode(ctx, l, s.line, &seen.Node); !isCtx(err) {
			s.Fatalf("First: %v, want the context's error", err)
		}
		if _, err := l.First(ctx, s.line, driver.All, &driver.Look{Nodes: []driver.Node{seen.Node}}); !isCtx(err) {
			s.Fatalf("First of all: %v, want the context's error", err)
		}
	})
}

// allSeen is what a First of the whole line returned.
type allSeen struct {
	driver.Look
	err error
}

// all asks for a whole line, or for one that differs from seen. It waits out temporary trouble.
func (s *scene) all(ctx context.Context, l *Link, seen *driver.Look) <-chan allSeen {
	c := make(chan allSeen, 1)
	go func() {
		for {
			now, err := l.First(ctx, s.line, driver.All, seen)
			if err == nil || ctx.Err() != nil || errors.Is(err, driver.ErrDenied) {
				c <- allSeen{now, err}
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return c
}

// shows fails unless the answer is these places, in order, and its number is greater than before.
func (s *scene) shows(c <-chan allSeen, before driver.Look, what string, want ...driver.Place) driver.Look {
	s.Helper()
	got, ok := arrives(soon, c)
	if !ok {
		s.Fatalf("%s: First of the whole line has not returned within %v", what, soon)
	}
	if got.err != nil || !showsPlaces(got.Look, want) {
		s.Fatalf("%s: First of the whole line returned %v, error %v", what, brief(got.Nodes...), got.err)
	}
	if got.At <= before.At && got.At > 0 {
		s.Errorf("%s: number %d, and %d before", what, got.At, before.At)
	}
	return got.Look
}

func showsPlaces(l driver.Look, want []driver.Place) bool {
	return slices.EqualFunc(l.Nodes, want, func(n driver.Node, p driver.Place) bool {
		w := p.Node()
		return n.ID == w.ID && n.Kind == w.Kind && n.Token == w.Token && string(n.Data) == string(w.Data) && n.Owner.Label == w.Owner.Label
	})
}

func allAsItChanges(s *scene) {
	sess, _ := s.session()
	other, _ := s.session()
	l := s.connect()
	seen := s.shows(s.all(s.ctx, l, nil), driver.Look{}, "a line that nobody used")
	var next <-chan allSeen
	round := 0
	then := func(change func()) {
		next = s.all(s.ctx, l, &seen)
		time.Sleep(time.Duration(round) * 20 * time.Millisecond) // before it listens, or after
		change()
	}
	for ; round < 3; round++ {
		e := s.entry("R")
		e.Data = []byte("a note")
		var a, b driver.Place
		then(func() { a, _ = s.joinAs(sess, e) })
		seen = s.shows(next, seen, "one comes", a)
		then(func() { b, _ = s.joinAs(other, s.entry("R")) })
		seen = s.shows(next, seen, "another comes", a, b)
		then(func() { s.amend(b, "R", []byte("his note")) })
		seen = s.shows(next, seen, "the second says something", a, b)
		then(func() { s.amend(b, "lock", []byte("his note")) })
		seen = s.shows(next, seen, "the second is of another kind", a, b)
		then(func() { s.leave(a, false) })
		seen = s.shows(next, seen, "the first goes", b)
		then(func() {
			if err := l.Remove(s.ctx, b.Node()); err != nil {
				s.Errorf("Remove: %v", err)
			}
		})
		seen = s.shows(next, seen, "the other is removed")
		_ = b.Leave(s.ctx, false)
	}
	nothing := s.all(s.ctx, l, &seen)
	select {
	case got := <-nothing:
		s.Errorf("nothing happens: %v, %v", brief(got.Nodes...), got.err)
	case <-time.After(30 * time.Millisecond):
	}
	s.join(sess)
	<-nothing
}

// Whatever is missed in between, the last change is not.
func allOfMany(s *scene) {
	l := s.connect()
	var places []driver.Place
	var mu sync.Mutex
	var all sync.WaitGroup
	seen := s.shows(s.all(s.ctx, l, nil), driver.Look{}, "a line that nobody used")
	next := s.all(s.ctx, l, &seen)
	for range 4 {
		sess, _ := s.session()
		all.Go(func() {
			for n := range 10 {
				p, _, err := sess.Join(s.ctx, s.entry("R"))
				if err != nil {
					s.Errorf("Join: %v", err)
					return
				}
				if n%2 == 0 {
					if err := p.Leave(s.ctx, false); err != nil {
						s.Errorf("Leave: %v", err)
					}
					continue
				}
				mu.Lock()
				places = append(places, p)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	slices.SortFunc(places, func(a, b driver.Place) int { return cmp.Compare(a.Node().Token, b.Node().Token) })
	for limit := time.Now().Add(2*soon + s.patience); !showsPlaces(seen, places); {
		got, ok := arrives(time.Until(limit), next)
		if !ok {
			s.Fatalf("the last that was seen is %v, of %d", brief(seen.Nodes...), len(places))
		}
		if got.err != nil {
			s.Fatalf("First of the whole line: %v", got.err)
		}
		if got.At <= seen.At {
			s.Errorf("number %d after %d", got.At, seen.At)
		}
		seen = got.Look
		next = s.all(s.ctx, l, &seen)
	}
	last := len(places) - 1
	s.leave(places[last], false)
	seen = s.shows(next, seen, "the last one goes", places[:last]...)
	next = s.all(s.ctx, l, &seen)
	s.leave(places[0], false)
	s.shows(next, seen, "one more goes", places[1:last]...)
}

func allAfterTrouble(s *scene) {
	sess, _ := s.session()
	l := s.connect()
	s.needs("cut and freeze a link", l.Cut == nil || l.Freeze == nil)
	first, _ := s.join(sess)
	seen := s.shows(s.all(s.ctx, l, nil), driver.Look{}, "before", first)
	for name, trouble := range map[string]func() func(){
		"the link is cut":   l.Cut,
		"no reply passes":   func() func() { return l.Freeze(Replies) },
		"no request passes": func() func() { return l.Freeze(Requests) },
	} {
		next := s.all(s.ctx, l, &seen)
		time.Sleep(50 * time.Millisecond)
		heal := trouble()
		second, _ := s.join(sess)
		s.leave(first, true)
		time.Sleep(s.svc.TTL / 10)
		heal()
		for limit := time.Now().Add(2*soon + s.patience); ; {
			got, ok := arrives(time.Until(limit), next)
			if !ok || got.err != nil {
				s.Fatalf("%s: it never shows who stands there now (%v), error %v", name, brief(seen.Nodes...), got.err)
			}
			seen = got.Look
			if showsPlaces(seen, []driver.Place{second}) {
				break
			}
			next = s.all(s.ctx, l, &seen)
		}
		first = second
	}
}
