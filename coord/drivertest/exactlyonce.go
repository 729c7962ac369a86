package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Obligation 1. A join whose outcome is open is where distributed locks fail: an orphan at the head of a line blocks it
// for as long as the session lives.
var exactlyOnce = []scenario{
	{name: "lost before it was applied", run: joinRidesOut(LostBefore)},
	{name: "reply lost", run: joinRidesOut(LostAfter)},
	{name: "applied late", run: joinRidesOut(AppliedLate)},
	{name: "reply lost, and that of the clean-up", run: joinRidesOut(LostAfter, LostAfter)},
	{name: "applied late, and the clean-up lost twice", run: joinRidesOut(AppliedLate, LostBefore, LostBefore)},
	{name: "cancelled when it was lost", run: joinCancelled(LostBefore)},
	{name: "cancelled when its reply was lost", run: joinCancelled(LostAfter)},
	{name: "cancelled before it is applied late", run: joinCancelled(AppliedLate)},
	{name: "cancelled, and the clean-up lost", run: joinCancelled(LostAfter, LostBefore, LostAfter)},
	{name: "cancelled at any moment", run: joinsCancelledAtAnyMoment},
	{name: "cancelled in a frozen link", run: joinCancelledFrozen},
	{name: "cancelled in a frozen link, and the clean-up lost", run: joinCancelledFrozenThenLost},
	{name: "cancelled before it began", run: joinCancelledBefore},
	{name: "the session closed before it is applied late", run: joinAppliedLateToClosedSession},
	{name: "many at once under every fate are not confused", run: joinsNotConfused},
	{name: "many at once while the link is cut", run: joinsWhileCut},
}

// joinRidesOut makes a join meet temporary trouble.
func joinRidesOut(fates ...Fate) func(s *scene) {
	return func(s *scene) {
		sess, l := s.session()
		s.needs("decide the fate of requests", l.Fate == nil)
		first, _ := s.join(sess)
		met := l.Fate(fates[0])
		for _, f := range fates[1:] {
			l.Fate(f)
		}
		second, ahead := s.join(sess)
		s.wait(s.patience, met, "the join meets its fate")
		if len(ahead) != 1 || ahead[0].ID != first.Node().ID {
			s.Errorf("the second sees %v ahead, want the first, %v", brief(ahead...), brief(first.Node()))
		}
		if second.Node().Token <= first.Node().Token {
			s.Errorf("tokens %d, then %d", first.Node().Token, second.Node().Token)
		}
		s.settles(s.line, 2)
		s.leave(second, false)
		s.settles(s.line, 1)
		s.leave(first, true)
		s.gone(s.line)
	}
}

// joinCancelled ends the join's context at the moment its request meets its fate.
func joinCancelled(fates ...Fate) func(s *scene) {
	return func(s *scene) {
		sess, l := s.session()
		s.needs("decide the fate of requests", l.Fate == nil)
		met := l.Fate(fates[0])
		for _, f := range fates[1:] {
			l.Fate(f)
		}
		ctx, cancel := context.WithCancel(s.ctx)
		defer cancel()
		result := make(chan error, 1)
		var me driver.Place
		go func() {
			var err error
			me, _, err = sess.Join(ctx, s.entry("lock"))
			result <- err
		}()
		s.wait(s.patience, met, "the join meets its fate")
		cancel()
		select {
		case err := <-result:
			if err == nil { // it was sent again before the cancellation took effect
				s.leave(me, false)
			}
		case <-time.After(s.patience):
			s.Fatal("Join does not return")
		}
		s.gone(s.line)
		if !ended(sess) { // a driver may end the session here, but not leave it crippled
			me, _ := s.join(sess)
			s.leave(me, true)
		}
		s.gone(s.line)
	}
}

func joinsCancelledAtAnyMoment(s *scene) {
	sess, _ := s.session()
	start := time.Now()
	me, _ := s.join(sess)
	usual := time.Since(start)
	s.leave(me, true)
	for range 40 {
		ctx, cancel := context.WithTimeout(s.ctx, rand.N(2*usual))
		me, _, err := sess.Join(ctx, s.entry("lock"))
		cancel()
		if err == nil {
			s.leave(me, false)
		} else if !isCtx(err) && !errors.Is(err, driver.ErrSessionEnded) {
			s.Errorf("Join: %v", err)
		}
	}
	s.gone(s.line)
}

func joinCancelledFrozen(s *scene) {
	sess, l := s.session()
	s.needs("freeze a link", l.Freeze == nil)
	for _, d := range []Direction{Requests, Replies, Both} {
		thaw := l.Freeze(d)
		ctx, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
		_, _, err := sess.Join(ctx, s.entry("lock"))
		cancel()
		thaw()
		if err == nil {
			s.Fatal("Join succeeded in a frozen link")
		}
		s.gone(s.line)
	}
}

// Nobody waits any longer when the answer comes.
func joinCancelledFrozenThenLost(s *scene) {
	other, _ := s.session()
	stays, _ := s.join(other)
	rounds := [][]Fate{{LostBefore}, {LostBefore, LostAfter}}
	for try := 0; len(rounds) > 0; try++ {
		sess, l := s.session() // a link of its own, so that no fate is left over from the last try
		s.needs("freeze a link and decide the fate of requests", l.Freeze == nil || l.Fate == nil)
		// A driver that has never seen the line may have to look at it before it can join, but would hear no answer.
		before, _ := s.join(sess)
		s.leave(before, false)
		thaw := l.Freeze(Replies)
		ctx, cancel := context.WithCancel(s.ctx)
		result := make(chan error, 1)
		go func() {
			_, _, err := sess.Join(ctx, s.entry("lock"))
			result <- err
		}()
		// A driver may take its unanswered join back before we look; then we try again.
		applied := s.happens(soon, func() bool { return len(s.svc.Stored(s, s.line)) == 2 })
		for _, f := range rounds[0] {
			l.Fate(f)
		}
		cancel()
		if err, ok := arrives(s.patience, result); !ok {
			s.Fatal("Join does not return")
		} else if !isCtx(err) {
			s.Errorf("Join: %v, want the context's error", err)
		}
		thaw()
		s.settles(s.line, 1)
		if applied {
			rounds = rounds[1:]
		} else if try == 10 {
			s.Fatal("the join was never seen to be applied")
		}
	}
	s.leave(stays, true)
	s.gone(s.line)
}

func joinCancelledBefore(s *scene) {
	sess, _ := s.session()
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, _, err := sess.Join(ctx, s.entry("lock")); !errors.Is(err, context.Canceled) {
		s.Errorf("Join in an ended context: %v", err)
	}
	s.gone(s.line)
}

func joinAppliedLateToClosedSession(s *scene) {
	sess, l := s.session()
	s.needs("decide the fate of requests", l.Fate == nil)
	met := l.Fate(AppliedLate)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _, _ = sess.Join(ctx, s.entry("lock"))
	}()
	s.wait(s.patience, met, "the join meets its fate")
	if err := sess.Close(s.ctx); err != nil {
		s.Fatalf("Close: %v", err)
	}
	s.wait(s.patience, over, "the join returns when its session is closed")
	s.gone(s.line)
	other := s.open(l)
	me, _ := s.join(other)
	s.leave(me, true)
	s.gone(s.line)
}

func joinsNotConfused(s *scene) {
	sess, l := s.session()
	s.needs("decide the fate of requests", l.Fate == nil)
	for i := range 12 {
		l.Fate([]Fate{LostBefore, LostAfter, AppliedLate}[i%3])
	}
	joined := s.joinTogether(sess, 40)
	if s.Failed() {
		return
	}
	s.settles(s.line, len(joined))
	shown := s.look(l)
	if len(shown) != len(joined) {
		s.Fatalf("Line shows %d nodes, %d joined", len(shown), len(joined))
	}
	for _, me := range joined {
		i := slices.IndexFunc(shown, func(n driver.Node) bool { return n.ID == me.Node().ID })
		if i < 0 {
			s.Errorf("Line does not show %v", brief(me.Node()))
		} else if n := shown[i]; string(n.Data) != string(me.Node().Data) || n.Token != me.Node().Token || n.Owner.Label != me.Node().Owner.Label {
			s.Errorf("Join returned %+v, Line shows %+v", me, n)
		}
	}
	for i, me := range joined {
		if i%2 == 0 {
			s.leave(me, false)
		}
	}
	s.settles(s.line, len(joined)/2)
	for _, n := range s.look(l) {
		var i int
		if _, err := fmt.Sscanf(string(n.Data), "contender %d", &i); err != nil || i%2 == 0 {
			s.Errorf("after the even ones left there stands %q", n.Data)
		}
	}
}

// joinTogether joins n times at once. The node at each index carries the index in its data and label.
func (s *scene) joinTogether(sess driver.Session, n int) []driver.Place {
	joined := make([]driver.Place, n)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			e := s.entry("lock")
			e.Data = fmt.Appendf(nil, "contender %d", i)
			e.Owner.Label = string(e.Data)
			ctx, cancel := context.WithTimeout(s.ctx, s.patience)
			defer cancel()
			var ahead []driver.Node
			joined[i], ahead, errs[i] = sess.Join(ctx, e)
			if errs[i] == nil && (string(joined[i].Node().Data) != string(e.Data) || joined[i].Node().Owner != e.Owner) {
				errs[i] = fmt.Errorf("contender %d got the node of another: %+v", i, joined[i])
			}
			for _, a := range ahead {
				if a.Token >= joined[i].Node().Token {
					errs[i] = fmt.Errorf("contender %d at %d sees %d ahead", i, joined[i].Node().Token, a.Token)
				}
			}
		})
	}
	all.Wait()
	ids, tokens := map[string]bool{}, map[driver.Token]bool{}
	for i, me := range joined {
		if errs[i] != nil {
			s.Errorf("Join: %v", errs[i])
			continue
		}
		if ids[me.Node().ID] || tokens[me.Node().Token] {
			s.Errorf("two have the id %q or the token %d", me.Node().ID, me.Node().Token)
		}
		ids[me.Node().ID], tokens[me.Node().Token] = true, true
	}
	return joined
}

func joinsWhileCut(s *scene) {
	sess, l := s.session()
	s.needs("cut a link", l.Cut == nil)
	stop := make(chan struct{})
	var cutter sync.WaitGroup
	cutter.Go(func() {
		for range 3 {
			heal := l.Cut()
			time.Sleep(10 * time.Millisecond)
			heal()
			select {
			case <-stop:
				return
			case <-time.After(60 * time.Millisecond):
			}
		}
	})
	var joined []driver.Place
	for range 6 {
		joined = append(joined, s.joinTogether(sess, 5)...)
	}
	close(stop)
	cutter.Wait()
	if s.Failed() {
		return
	}
	s.settles(s.line, len(joined))
	for _, me := range joined {
		s.leave(me, false)
	}
	s.gone(s.line)
}
