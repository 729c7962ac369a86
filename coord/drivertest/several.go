package drivertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/mortal"
	"github.com/turnwise/turnwise/recipes/multi"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/semaphore"
)

var several = []scenario{
	{name: "all or none, in the order of their names", run: severalInOrder},
	{name: "who waits for several and dies has nothing", run: severalAndDies},
	{name: "many who take several", run: manyWhoTakeSeveral},
	{name: "any answer is lost to who takes several", run: severalWithoutAnAnswer},
}

// threeLines returns lines that sort as they are given.
func (s *scene) threeLines() (a, b, c string) { return s.line + "a", s.line + "b", s.line + "c" }

func (s *scene) has(what string, got <-chan multi.Result) *multi.Hold {
	s.Helper()
	select {
	case r := <-got:
		if r.Err != nil {
			s.Fatalf("%s: %v", what, r.Err)
		}
		return r.Hold
	case <-time.After(soon + s.patience):
		s.Fatalf("%s: it still waits", what)
		return nil
	}
}

func severalInOrder(s *scene) {
	cs := s.clients(2)
	a, b, c := s.threeLines()
	busy := s.must(mutex.New(cs[0], b).Lock(s.ctx))
	m := multi.New(cs[1], multi.Permits(c, 3, 2), multi.Mutex(b), multi.Write(a))
	if _, err := m.TryLock(s.ctx); !errors.Is(err, coord.ErrBusy) && !errors.Is(err, coord.ErrUnavailable) {
		s.Errorf("a try for three lines, one of which is busy: %v, want ErrBusy", err)
	}
	s.settles(a, 0)
	got := m.LockChan(s.ctx)
	s.settles(a, 1)
	s.settles(b, 2)
	s.settles(c, 0) // it waits for b, and keeps nobody out of c
	pool := s.must(semaphore.New(cs[0], c, 3).Acquire(s.ctx, 2))
	s.release(busy)
	s.settles(c, 2)
	select {
	case r := <-got:
		s.Fatalf("two of three permits are taken, and it comes through: %+v", r)
	default:
	}
	s.release(pool)
	h := s.has("all have gone", got)
	for _, line := range []string{a, b, c} {
		if h.Token(line) == 0 || h.Hold(line).Err() != nil {
			s.Errorf("%s: token %d, %v", line, h.Token(line), h.Err())
		}
	}
	if err := h.Release(); err != nil {
		s.Errorf("Release: %v", err)
	}
	for _, line := range []string{a, b, c} {
		s.gone(line)
	}
}

func severalAndDies(s *scene) {
	c, l, w := s.watchedClient()
	s.needs("expire a session", l.Expire == nil)
	cs := s.clients(2)
	a, b, _ := s.threeLines()
	busy := s.must(mutex.New(cs[0], b).Lock(s.ctx))
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	got := multi.New(c, multi.Mutex(a), multi.Mutex(b)).LockChan(ctx)
	s.settles(a, 1)
	s.settles(b, 2)
	behind := taking(func() (*coord.Hold, error) { return mutex.New(cs[1], a).Lock(s.ctx) })
	s.settles(a, 2)
	l.Expire(s, w.last())
	first := s.granted(soon, behind, "the one ahead has lost its session")
	s.release(busy)
	select {
	case r := <-got:
		s.Fatalf("somebody else has the first of its lines, and it comes through: %+v", r)
	case <-time.After(50 * time.Millisecond):
	}
	s.release(first)
	if err := s.has("all have gone", got).Release(); err != nil {
		s.Errorf("Release: %v", err)
	}
	s.gone(a)
	s.gone(b)
}

func manyWhoTakeSeveral(s *scene) {
	cs := s.clients(3)
	a, b, c := s.threeLines()
	lines := []string{a, b, c}
	var inside [3]atomic.Int64
	var all sync.WaitGroup
	for i := range 9 {
		all.Go(func() {
			for range 4 {
				var opts []multi.Option
				set := rand.Perm(3)[:2+rand.IntN(2)]
				for _, x := range set {
					opts = append(opts, multi.Mutex(lines[x]))
				}
				err := multi.New(cs[i%3], opts...).Do(s.ctx, func(context.Context, *multi.Hold) error {
					for _, x := range set {
						if n := inside[x].Add(1); n != 1 {
							s.Errorf("%d are inside", n)
						}
					}
					time.Sleep(rand.N(2 * time.Millisecond))
					for _, x := range set {
						inside[x].Add(-1)
					}
					return nil
				})
				if err != nil {
					s.Errorf("Do: %v", err)
				}
			}
		})
	}
	all.Wait()
	for _, line := range lines {
		s.gone(line)
	}
}

// severalWithoutAnAnswer loses any request of one who takes three locks, or its answer, while another one takes them as well.
func severalWithoutAnAnswer(s *scene) {
	other := s.clients(1)[0]
	few := make(chan struct{}, 4)
	var all sync.WaitGroup
	for _, at := range []string{"join 1", "join 2", "join 3", "leave 1", "leave 2", "leave 3"} {
		for _, f := range []Fate{LostBefore, LostAfter, AppliedLate} {
			l := s.connect()
			s.needs("decide the fate of requests", l.Fate == nil)
			line := s.anotherLine()
			all.Go(func() {
				few <- struct{}{}
				defer func() { <-few }()
				c := coord.NewClient(&mortal.Moments{Driver: l.Driver, Asked: func(moment string, do func() error) error {
					if moment == at {
						l.Fate(f)
					}
					return do()
				}})
				defer c.Close()
				if err := s.bothTakeAll(c, other, line); err != nil {
					s.Errorf("%s is %v: %v", at, f, err)
				}
			})
		}
	}
	all.Wait()
}

// bothTakeAll has two take three locks at the same time, in as many orders, and checks that nothing of them stays.
func (s *scene) bothTakeAll(one, other *coord.Client, line string) error {
	a, b, c := line+"a", line+"b", line+"c"
	ctx, cancel := context.WithTimeout(s.ctx, 2*s.patience)
	defer cancel()
	var inside atomic.Int64
	work := func(context.Context, *multi.Hold) error {
		if inside.Add(1) > 1 {
			return errors.New("two are inside")
		}
		time.Sleep(10 * time.Millisecond)
		inside.Add(-1)
		return nil
	}
	errs := make(chan error, 2)
	go func() { errs <- multi.New(one, multi.Mutex(a), multi.Mutex(b), multi.Mutex(c)).Do(ctx, work) }()
	go func() { errs <- multi.New(other, multi.Mutex(c), multi.Mutex(a), multi.Mutex(b)).Do(ctx, work) }()
	if err := errors.Join(<-errs, <-errs); err != nil {
		return err
	}
	clean := func() bool { return len(s.svc.Stored(s, a))+len(s.svc.Stored(s, b))+len(s.svc.Stored(s, c)) == 0 }
	if !s.happens(s.patience, clean) {
		return errors.New("something stays")
	}
	if time.Sleep(2 * Late); !clean() {
		return errors.New("something came later, and stays")
	}
	return nil
}
