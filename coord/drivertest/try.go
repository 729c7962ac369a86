package drivertest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// What a Join with Entry.Free must do.
var tries = []scenario{
	{name: "an empty line is joined", run: tryEmpty},
	{name: "a busy line is never joined", run: tryBusy},
	{name: "busy is what stands in the way", run: tryInSight},
	{name: "room for several", run: tryRoom},
	{name: "a look as long as a join's", run: tryLook},
	{name: "a service out of reach is not busy", run: tryOutOfReach},
	{name: "under every fate", run: tryUnderFate},
	{name: "many at once: one at most", run: tryTogether},
}

// asTry returns an entry that joins only if it is its turn by the rule of its kind.
func asTry(e driver.Entry) driver.Entry {
	me := driver.Node{Line: e.Line, Kind: e.Kind}
	e.Free = func(ahead []driver.Node) bool { return len(rules.For(e.Kind)(me, ahead)) == 0 }
	return e
}

// try joins if it is its turn.
func (s *scene) try(ctx context.Context, sess driver.Session, kind string, sight driver.Sight) (driver.Place, error) {
	e := s.entry(kind)
	e.Sight = sight
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	e = asTry(e)
	me, ahead, err := sess.Join(ctx, e)
	if err == nil && !e.Free(ahead) {
		s.Errorf("a try succeeded behind %v", brief(ahead...))
	}
	return me, err
}

func tryEmpty(s *scene) {
	sess, l := s.session()
	for range 3 {
		me, err := s.try(s.ctx, sess, "lock", driver.Sight{})
		if err != nil {
			s.Fatalf("try in an empty line: %v", err)
		}
		s.only(l, me.Node())
		s.leave(me, true)
	}
	s.gone(s.line)
}

func tryBusy(s *scene) {
	holder, _ := s.session()
	sess, l := s.session()
	me, _ := s.join(holder)
	// A server that lags may not know of the holder yet, and then a try joins and leaves again.
	s.eventually(s.patience, "the holder is seen", func() bool { return len(s.look(l)) == 1 })
	stop := make(chan struct{})
	most := make(chan int, 1)
	go func() {
		for n := 0; ; {
			n = max(n, len(s.svc.Stored(s, s.line)))
			select {
			case <-stop:
				most <- n
				return
			case <-time.After(200 * time.Microsecond):
			}
		}
	}()
	for range 20 {
		if _, err := s.try(s.ctx, sess, "lock", driver.Sight{}); !errors.Is(err, driver.ErrBusy) {
			s.Errorf("try in a busy line: %v, want ErrBusy", err)
		}
	}
	close(stop)
	if n := <-most; n != 1 {
		s.Errorf("%d nodes were stored while others tried, want the holder's alone", n)
	}
	s.leave(me, true)
	if me, err := s.try(s.ctx, sess, "lock", driver.Sight{}); err != nil {
		s.Errorf("try when the holder has left: %v", err)
	} else {
		s.leave(me, true)
	}
	s.gone(s.line)
}

func tryInSight(s *scene) {
	sess, _ := s.session()
	s.file(sess, "R", "R")
	writers := driver.Sight{Ignore: []string{"R"}}
	if _, err := s.try(s.ctx, sess, "W", driver.Sight{}); !errors.Is(err, driver.ErrBusy) {
		s.Errorf("a writer tries behind readers: %v, want ErrBusy", err)
	}
	if _, err := s.try(s.ctx, sess, "R", writers); err != nil {
		s.Errorf("a reader tries behind readers: %v", err)
	}
	s.file(sess, "W")
	if _, err := s.try(s.ctx, sess, "R", writers); !errors.Is(err, driver.ErrBusy) {
		s.Errorf("a reader tries behind a writer: %v, want ErrBusy", err)
	}
	s.settles(s.line, 4)
}

// A rule with room for several lets a try in beside some holders, but not beside too many.
func tryRoom(s *scene) {
	sess, _ := s.session()
	room := rules.Sight(rules.Permits(1, 3))
	holders := s.file(sess, "S1of3", "S1of3")
	if _, err := s.try(s.ctx, sess, "S2of3", room); !errors.Is(err, driver.ErrBusy) {
		s.Errorf("two permits of three, where two are taken: %v, want ErrBusy", err)
	}
	last, err := s.try(s.ctx, sess, "S1of3", room)
	if err != nil {
		s.Fatalf("the last of three permits: %v", err)
	}
	if _, err := s.try(s.ctx, sess, "S1of3", room); !errors.Is(err, driver.ErrBusy) {
		s.Errorf("a fourth permit of three: %v, want ErrBusy", err)
	}
	s.settles(s.line, 3)
	s.file(sess, "S3of3") // which waits
	s.leave(last, false)
	if _, err := s.try(s.ctx, sess, "S1of3", room); !errors.Is(err, driver.ErrBusy) {
		s.Errorf("a try past somebody who waits: %v, want ErrBusy", err)
	}
	s.settles(s.line, 3)
	for _, h := range holders {
		s.leave(h, false)
	}
}

// A try that finds the line busy costs the same in a long line.
func tryLook(s *scene) {
	sess, l := s.session()
	s.needs("count traffic", l.Traffic == nil)
	room := rules.Sight(rules.Permits(1, 3))
	try := func() Traffic {
		before := l.Traffic()
		if _, err := s.try(s.ctx, sess, "S1of3", room); !errors.Is(err, driver.ErrBusy) {
			s.Errorf("a try in a full line: %v, want ErrBusy", err)
		}
		return l.Traffic().Sub(before)
	}
	s.file(sess, "S1of3", "S1of3", "S1of3")
	few := least(func(Traffic) bool { return false }, try)
	s.file(sess, slices.Repeat([]string{"S1of3"}, 30)...)
	many := least(func(t Traffic) bool { return t.Requests() <= few.Requests() }, try)
	if many.Requests() > few.Requests() {
		s.Errorf("a try in a full line took %+v, with thirty waiting %+v", few, many)
	}
}

func tryOutOfReach(s *scene) {
	sess, l := s.session()
	s.needs("freeze and cut a link", l.Freeze == nil || l.Cut == nil)
	for what, trouble := range map[string]func() func(){
		"no request passes": func() func() { return l.Freeze(Requests) },
		"no reply passes":   func() func() { return l.Freeze(Replies) },
		"cut":               l.Cut,
	} {
		heal := trouble()
		ctx, cancel := context.WithTimeout(s.ctx, s.svc.TTL/5)
		if _, err := s.try(ctx, sess, "lock", driver.Sight{}); err == nil || errors.Is(err, driver.ErrBusy) {
			s.Errorf("%s: try says %v, want the context's error", what, err)
		}
		cancel()
		heal()
		s.gone(s.line)
	}
}

func tryUnderFate(s *scene) {
	sess, l := s.session()
	s.needs("decide the fate of requests", l.Fate == nil)
	for _, f := range []Fate{LostBefore, LostAfter, AppliedLate} {
		l.Fate(f)
		me, err := s.try(s.ctx, sess, "lock", driver.Sight{})
		if err != nil {
			s.Fatalf("%v: try in an empty line: %v", f, err)
		}
		s.settles(s.line, 1)
		s.leave(me, true)
		s.gone(s.line)
	}
}

func tryTogether(s *scene) {
	a, _ := s.session()
	b, _ := s.session()
	for range 10 {
		var mu sync.Mutex
		var won []driver.Place
		var all sync.WaitGroup
		start := make(chan struct{})
		for i := range 8 {
			sess := []driver.Session{a, b}[i%2]
			all.Go(func() {
				<-start
				me, err := s.try(s.ctx, sess, "lock", driver.Sight{})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, me)
				} else if !errors.Is(err, driver.ErrBusy) {
					s.Errorf("try: %v", err)
				}
			})
		}
		close(start)
		all.Wait()
		if len(won) > 1 {
			s.Fatalf("%v all got in", brief(nodesOf(won)...))
		}
		s.eventually(s.patience, "only the winner's node stands", func() bool { return len(s.svc.Stored(s, s.line)) == len(won) })
		if len(won) == 1 {
			s.leave(won[0], true)
		}
		time.Sleep(time.Millisecond)
	}
	s.gone(s.line)
}
