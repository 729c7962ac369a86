package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

var contexts = []scenario{
	{name: "that has ended", alone: true, run: contextEnded},
	{name: "that ends at any moment", run: contextEndsAtAnyMoment},
	{name: "given up by some, not by others", run: someGiveUp},
	{name: "that ends while the system is frozen", alone: true, run: contextEndsWhileFrozen},
	{name: "that ends while the system is down", alone: true, run: contextEndsWhileDown},
}

// endsInTime checks that a call returns soon after its ctx has ended.
func (s *scene) endsInTime(what string, ctx context.Context, call func(ctx context.Context) error) error {
	s.Helper()
	done := make(chan error, 1)
	go func() { done <- call(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(ending + slack):
		s.Errorf("%s goes on %v after its context has ended", what, ending+slack)
		return context.Cause(ctx)
	}
}

// calls are all calls of a store, as short functions. The swap is of a register that is empty.
func (s *scene) calls(store register.Store, sw register.Swap) map[string]func(ctx context.Context) error {
	all := map[string]func(ctx context.Context) error{
		"Read": func(ctx context.Context) error { _, err := store.Read(ctx, sw.Key); return err },
		"Swap": func(ctx context.Context) error { _, err := store.Swap(ctx, sw); return err },
		"List": func(ctx context.Context) error {
			return store.List(ctx, s.prefix, func(register.Item) bool { return true })
		},
		"Memory": func(ctx context.Context) error { _, err := store.Memory(ctx); return err },
		"Listen": func(ctx context.Context) error {
			stop, err := store.Listen(ctx, s.key("t"), func([]byte) {})
			if err == nil {
				stop()
			}
			return err
		},
	}
	if presence, ok := store.(register.Presence); ok {
		all["Keep"] = func(ctx context.Context) error {
			release, err := presence.Keep(ctx, s.key("kept"))
			if err == nil {
				release()
			}
			return err
		}
		all["Unkept"] = func(ctx context.Context) error { return presence.Unkept(ctx, s.key("unkept")) }
	}
	return all
}

func contextEnded(s *scene) {
	a := s.open()
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	sw := register.Swap{Key: s.key("k"), Next: register.NewVersion(), Value: []byte("x")}
	for what, call := range s.calls(a, sw) {
		for range 10 {
			if err := s.endsInTime(what, ctx, call); errors.Is(err, register.ErrConflict) || errors.Is(err, register.ErrForgot) {
				s.Errorf("%s in a context that has ended: %v", what, err)
			}
		}
	}
	s.swap(a, sw) // whether or not it was applied
}

// Nobody else swaps these registers. So whatever was open, the same swap must succeed in the end.
func contextEndsAtAnyMoment(s *scene) {
	stores := s.opened(2)
	start := time.Now()
	s.put(stores[0], s.key("usual"), register.Version{}, "x")
	usual := time.Since(start)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			stands := register.Item{Key: s.key(fmt.Sprint(i))}
			for n := range 60 {
				sw := register.Swap{Key: stands.Key, Old: stands.Version, Next: register.NewVersion(), Value: fmt.Appendf(nil, "value %d", n)}
				if n%7 == 6 {
					sw.Next, sw.Value = register.Version{}, nil
				}
				want := register.Item{Key: sw.Key, Value: sw.Value, Version: sw.Next}
				limit := rand.N(2 * usual)
				if (sw.Old == register.Version{}) { // if it came late, it would bring back what was deleted meanwhile
					limit = time.Minute
				}
				ctx, cancel := context.WithTimeout(s.ctx, limit)
				err := s.endsInTime("Swap", ctx, func(ctx context.Context) error {
					it, err := stores[i%2].Swap(ctx, sw)
					if err == nil {
						s.same("what Swap returned", it, want)
					}
					return err
				})
				cancel()
				if errors.Is(err, register.ErrConflict) || errors.Is(err, register.ErrTooLarge) {
					s.Errorf("Swap of a register that nobody else swaps: %v", err)
				}
				if err != nil || n%2 == 0 {
					it, err := s.insist(stores[(i+n)%2], sw)
					if err != nil {
						s.Errorf("Swap once more: %v", err)
						return
					}
					s.same("what Swap returned once more", it, want)
				}
				s.stands(stores[0], want)
				stands = want
			}
		})
	}
	all.Wait()
}

// Calls share connections. A call that gives up takes no answer from another.
func someGiveUp(s *scene) {
	a := s.open()
	want := s.putMany([]register.Store{a}, 16, "k")
	start := time.Now()
	s.read(a, s.key("k0"))
	usual := time.Since(start)
	ctx, cancel := context.WithCancel(s.ctx)
	var givingUp, staying sync.WaitGroup
	for range 4 {
		givingUp.Go(func() {
			for ctx.Err() == nil {
				brief, cancel := context.WithTimeout(ctx, rand.N(2*usual))
				_, _ = a.Read(brief, s.key("k1"))
				_ = a.List(brief, s.prefix, func(register.Item) bool { return true })
				cancel()
			}
		})
	}
	for i := range 4 {
		staying.Go(func() {
			for n := range 50 {
				key := s.key(fmt.Sprintf("k%d", (i+n)%16))
				it, err := a.Read(s.ctx, key)
				if err != nil {
					s.Errorf("Read: %v", err)
					return
				}
				s.same("what Read returned", it, want[key])
			}
		})
	}
	staying.Wait()
	cancel()
	givingUp.Wait()
}

// endWhileOutOfReach makes each call while the system does not answer.
func (s *scene) endWhileOutOfReach(store register.Store, sw register.Swap) {
	s.Helper()
	var all sync.WaitGroup
	for what, call := range s.calls(store, sw) {
		for range 5 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(s.ctx, 300*time.Millisecond)
				defer cancel()
				err := s.endsInTime(what, ctx, call)
				if errors.Is(err, register.ErrConflict) && what != "Keep" {
					s.Errorf("%s while the system is out of reach: %v", what, err)
				}
			})
		}
	}
	all.Wait()
}

func contextEndsWhileFrozen(s *scene) {
	s.needs("be frozen", s.sys.Freeze == nil)
	a := s.open()
	s.remembers(a)
	sw := register.Swap{Key: s.key("k"), Next: register.NewVersion(), Value: []byte("x")}
	s.read(a, sw.Key)
	thaw := s.sys.Freeze(s)
	s.Cleanup(thaw)
	s.endWhileOutOfReach(a, sw)
	thaw()
	s.again("the swap once more", func(ctx context.Context) error { _, err := a.Swap(ctx, sw); return err })
	s.stands(s.open(), register.Item{Key: sw.Key, Value: sw.Value, Version: sw.Next})
}

func contextEndsWhileDown(s *scene) {
	s.needs("be restarted", s.sys.Restart == nil)
	a := s.open()
	s.remembers(a)
	sw := register.Swap{Key: s.key("k"), Next: register.NewVersion(), Value: []byte("x")}
	var restarting sync.WaitGroup
	restarting.Go(func() { s.sys.Restart(s) })
	for range 3 {
		s.endWhileOutOfReach(a, sw)
	}
	restarting.Wait()
	s.again("the swap once more", func(ctx context.Context) error {
		_, err := a.Swap(ctx, sw)
		if errors.Is(err, register.ErrForgot) {
			s.remembers(a)
		}
		return err
	})
	s.stands(a, register.Item{Key: sw.Key, Value: sw.Value, Version: sw.Next})
}
