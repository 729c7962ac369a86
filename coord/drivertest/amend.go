package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// What Amend must do.
var amendments = []scenario{
	{name: "another kind wakes those behind", run: kindWakes},
	{name: "another kind before the wait counts", run: kindBeforeWait},
	{name: "other data lets nobody in", run: dataLetsNobodyIn},
	{name: "under every fate", run: amendUnderFate},
	{name: "cancelled, then left", run: amendCancelledThenLeft},
	{name: "of a node that was removed", run: amendOfRemoved},
	{name: "applied late to a node that was removed", run: amendAppliedLateToRemoved},
	{name: "is never seen half done", run: amendNeverHalf},
	{name: "a holder goes on watching over its node", run: amendedThenRemoved},
	{name: "a holder that gave it up goes on watching over its node", run: amendedLateThenRemoved},
}

func kindWakes(s *scene) {
	p := s.pair()
	old := p.ahead.Node()
	waiter := s.await(p.behind, old)
	s.noAnswer(30*time.Millisecond, waiter, "nothing happens")
	changed := s.amend(p.ahead, "R", []byte("says something now"))
	a := s.within(soon, waiter, "the node ahead has another kind")
	if a.err != nil || len(a.ahead) != 1 || a.ahead[0].Token != old.Token || a.ahead[0].Kind != "R" || a.ahead[0].ID != changed.ID {
		s.Fatalf("ahead %v, error %v; want %v", brief(a.ahead...), a.err, brief(changed))
	}
	nodes := s.look(p.behindLink)
	if len(nodes) != 2 || nodes[0].ID != changed.ID || string(nodes[0].Data) != string(changed.Data) || nodes[0].Owner.Label != old.Owner.Label {
		s.Errorf("Line shows %+v, want %+v first", nodes, changed)
	}
	waiter = s.await(p.behind, a.ahead...)
	s.noAnswer(30*time.Millisecond, s.merely(waiter, changed), "the amended node stands")
	s.leave(p.ahead, true)
	s.turn(soon, s.queue(p.behind, a.ahead, nil), "the amended node has left")
	s.leave(p.behind, true)
	s.gone(s.line)
}

func kindBeforeWait(s *scene) {
	p := s.pair()
	seen := p.ahead.Node()
	changed := s.amend(p.ahead, "R", nil)
	a := s.within(soon, s.await(p.behind, seen), "the kind that was seen is no more")
	if a.err != nil || len(a.ahead) != 1 || a.ahead[0].Kind != "R" {
		s.Fatalf("ahead %v, error %v; want %v", brief(a.ahead...), a.err, brief(changed))
	}
	third, ahead := s.join(p.aheadSess)
	if len(ahead) == 0 || third.Node().Token <= p.behind.Node().Token {
		s.Errorf("%v joins behind %v and sees %v ahead", brief(third.Node()), brief(p.behind.Node()), brief(ahead...))
	}
}

func dataLetsNobodyIn(s *scene) {
	p := s.pair()
	waiter := s.queue(p.behind, []driver.Node{p.ahead.Node()}, nil)
	token := p.ahead.Node().Token
	for _, data := range []string{"one", "", "a longer value than before"} {
		s.amend(p.ahead, "lock", []byte(data))
		s.noAnswer(50*time.Millisecond, waiter, "the node ahead says something else")
		if n := s.look(p.behindLink); len(n) != 2 || string(n[0].Data) != data || n[0].Token != token {
			s.Errorf("Line shows %+v", n)
		}
	}
	s.leave(p.ahead, true)
	s.turn(soon, waiter, "the node ahead leaves")
}

func amendUnderFate(s *scene) {
	sess, l := s.session()
	s.needs("decide the fate of requests", l.Fate == nil)
	for _, kind := range []string{"R", "W"} { // one changes the kind, one only the data
		for _, f := range []Fate{LostBefore, LostAfter, AppliedLate} {
			me, _ := s.joinAs(sess, s.entry("W"))
			l.Fate(f)
			changed := s.amend(me, kind, []byte("amended: "+f.String()))
			s.settles(s.line, 1)
			n := s.look(l)
			if len(n) != 1 || n[0].Kind != kind || n[0].Token != me.Node().Token || n[0].ID != changed.ID || string(n[0].Data) != string(changed.Data) {
				s.Errorf("%v: Line shows %+v, want %+v", f, n, changed)
			}
			s.leave(me, true)
			s.gone(s.line)
		}
	}
}

func amendCancelledThenLeft(s *scene) {
	sess, l := s.session()
	s.needs("decide the fate of requests", l.Fate == nil)
	for _, f := range []Fate{LostBefore, LostAfter, AppliedLate} {
		me, _ := s.joinAs(sess, s.entry("W"))
		met := l.Fate(f)
		ctx, cancel := context.WithCancel(s.ctx)
		go func() {
			<-met
			cancel()
		}()
		_ = me.Amend(ctx, "R", nil)
		cancel()
		s.leave(me, true)
		s.gone(s.line)
		if ended(sess) {
			sess = s.open(l)
		}
	}
}

func amendOfRemoved(s *scene) {
	sess, l := s.session()
	for kind, data := range map[string][]byte{"lock": nil, "R": []byte("says something")} { // also to the present kind
		me, _ := s.join(sess)
		s.remove(l, me.Node())
		if err := me.Amend(s.ctx, kind, data); !errors.Is(err, driver.ErrRemoved) {
			s.Errorf("Amend: error %v; want ErrRemoved", err)
		}
		s.gone(s.line)
	}
}

func amendAppliedLateToRemoved(s *scene) {
	sess, l := s.session()
	_, operator := s.session()
	s.needs("decide the fate of requests", l.Fate == nil)
	for _, kind := range []string{"W", "R"} {
		me, _ := s.joinAs(sess, s.entry("W"))
		met := l.Fate(AppliedLate)
		amended := make(chan error, 1)
		go func() { amended <- me.Amend(s.ctx, kind, []byte("says something")) }()
		s.wait(s.patience, met, "the amendment meets its fate")
		s.remove(operator, s.look(operator)[0])
		s.gone(s.line)
		select {
		case <-amended: // it may have been amended first, and then removed
		case <-time.After(s.patience):
			s.Fatal("Amend does not return")
		}
	}
}

func amendNeverHalf(s *scene) {
	sess, _ := s.session()
	_, l := s.session()
	me, _ := s.joinAs(sess, s.entry("W"))
	over := make(chan struct{})
	go func() {
		defer close(over)
		for i := range 20 {
			if err := me.Amend(s.ctx, []string{"R", "W"}[i%2], nil); err != nil {
				s.Errorf("Amend: %v", err)
				return
			}
		}
	}()
	for {
		select {
		case <-over:
			return
		default:
		}
		if n := s.look(l); len(n) != 1 || n[0].Token != me.Node().Token {
			s.Fatalf("Line shows %v, want the one node", brief(n...))
		}
	}
}

func amendedThenRemoved(s *scene) {
	sess, _ := s.session()
	_, operator := s.session()
	me, _ := s.joinAs(sess, s.entry("W"))
	s.amend(me, "R", nil)
	holder := s.watch(me)
	s.noAnswer(30*time.Millisecond, holder, "nothing happens")
	s.remove(operator, s.look(operator)[0])
	s.mustBeRemoved(soon, holder, "the amended node was removed")
}

// The amendment is made, but its answer comes late. By then the holder watches over its node without knowing what it is.
func amendedLateThenRemoved(s *scene) {
	sess, l := s.session()
	s.needs("freeze a link", l.Freeze == nil)
	_, operator := s.session()
	for _, kind := range []string{"R", "W"} { // one changes the kind, one only the data
		var me driver.Place
		var holder <-chan answer
		s.eventually(s.patience, "it is amended", func() bool { // a driver that has to look first cannot, and makes no amendment
			me, _ = s.joinAs(sess, s.entry("W"))
			thaw := l.Freeze(Replies)
			ctx, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
			err := me.Amend(ctx, kind, []byte("says something now"))
			cancel()
			if err == nil {
				s.Error("Amend had an answer although none could come")
			}
			holder = s.watch(me)
			time.Sleep(50 * time.Millisecond)
			thaw()
			time.Sleep(Late)
			if n := s.look(operator); len(n) == 1 && n[0].Kind == kind {
				return true
			}
			s.leave(me, true)
			s.gone(s.line)
			return false
		})
		s.noAnswer(50*time.Millisecond, holder, "the node stands")
		s.remove(operator, s.look(operator)[0])
		s.mustBeRemoved(soon, holder, "the amended node was removed")
		s.leave(me, true)
		s.gone(s.line)
	}
}
