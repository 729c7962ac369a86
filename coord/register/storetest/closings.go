package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/leak"
)

var closings = []scenario{
	{name: "calls after Close end", run: callsAfterClose},
	{name: "Close while calls are under way", run: closeDuringCalls},
	{name: "one who listens may stop after Close", run: stopAfterClose},
	{name: "goroutines and files after use and Close", alone: true, run: goroutinesAfterClose},
	{name: "calls that are given up", alone: true, run: callsGivenUp},
	{name: "listening that comes and goes", alone: true, run: listeningComesAndGoes},
}

func callsAfterClose(s *scene) {
	a, b := s.open(), s.open()
	s.put(a, s.key("k"), register.Version{}, "x")
	for range 2 {
		if err := a.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
	}
	sw := register.Swap{Key: s.key("after"), Next: register.NewVersion(), Value: []byte("x")}
	for what, call := range s.calls(a, sw) {
		ctx, cancel := context.WithTimeout(s.ctx, time.Second)
		err := s.endsInTime(what, ctx, call)
		cancel()
		if what == "Swap" && err == nil {
			s.stands(b, register.Item{Key: sw.Key, Value: sw.Value, Version: sw.Next})
		}
	}
	s.put(b, s.key("other"), register.Version{}, "the other store is open")
}

func closeDuringCalls(s *scene) {
	b := s.open()
	for range 5 {
		a := s.open()
		sw := register.Swap{Key: s.key("k"), Next: register.NewVersion(), Value: []byte("x")}
		var all sync.WaitGroup
		for what, call := range s.calls(a, sw) {
			for range 5 {
				all.Go(func() {
					ctx, cancel := context.WithTimeout(s.ctx, time.Second)
					defer cancel()
					_ = s.endsInTime(what, ctx, call)
				})
			}
		}
		if err := a.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
		all.Wait()
		it, err := s.insist(b, sw)
		if err != nil {
			s.Fatalf("the swap once more: %v", err)
		}
		s.remove(b, it)
	}
}

func stopAfterClose(s *scene) {
	s.needsToTell()
	a, b := s.open(), s.open()
	var stopped, late atomic.Bool
	stop, err := a.Listen(s.ctx, s.key("t"), func([]byte) {
		if stopped.Load() {
			late.Store(true)
		}
	})
	if err != nil {
		s.Fatalf("Listen: %v", err)
	}
	defer s.tellAlways(b, s.key("k"), s.key("t"))()
	if err := a.Close(); err != nil {
		s.Errorf("Close: %v", err)
	}
	returned := make(chan struct{})
	go func() {
		stop()
		stopped.Store(true)
		close(returned)
	}()
	select {
	case <-returned:
	case <-time.After(soon):
		s.Fatal("stop does not return after Close")
	}
	time.Sleep(20 * time.Millisecond)
	if late.Load() {
		s.Error("a note is told when stop has returned")
	}
}

// useAll does a bit of everything with a store.
func (s *scene) useAll(store register.Store) {
	s.Helper()
	var stands register.Item
	for range 3 {
		stands = s.put(store, s.key("k"), stands.Version, "x", register.Note{Topic: s.key("t"), Text: []byte("note")})
		s.conflicts(store, register.Swap{Key: stands.Key, Old: register.NewVersion(), Next: register.NewVersion()}, stands)
	}
	s.listed(store, s.prefix)
	s.remembers(store)
	if !s.sys.Mute {
		for range 3 {
			e := s.listen(store, s.key("t"))
			stands = s.put(store, s.key("k"), stands.Version, "x", register.Note{Topic: e.topic, Text: []byte("heard")})
			s.hears(e, "heard")
			e.end()
		}
	}
	if presence, ok := store.(register.Presence); ok {
		s.keep(presence, s.key("kept"))()
	}
	s.remove(store, stands)
}

func goroutinesAfterClose(s *scene) {
	s.leavesNoGoroutine(func(s *scene) {
		stores := s.opened(3)
		for _, store := range stores {
			s.useAll(store)
		}
		for _, store := range stores {
			if err := store.Close(); err != nil {
				s.Errorf("Close: %v", err)
			}
		}
	})
}

func callsGivenUp(s *scene) {
	s.leavesNoGoroutine(func(s *scene) {
		a := s.open()
		calls := s.calls(a, register.Swap{Key: s.key("k"), Next: register.NewVersion(), Value: []byte("x")})
		s.grows(100, func() {
			for _, call := range calls {
				ctx, cancel := context.WithTimeout(s.ctx, 100*time.Microsecond)
				_ = call(ctx)
				cancel()
			}
		})
		if err := a.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
	})
}

func listeningComesAndGoes(s *scene) {
	s.needsToTell()
	a := s.open()
	s.grows(100, func() { s.listen(a, s.key("t")).end() })
}

// leavesNoGoroutine runs f as a test of its own, including its clean-up, and fails if goroutines stay that were not
// there before.
func (s *scene) leavesNoGoroutine(f func(s *scene)) {
	s.Helper()
	leak.None(s.TB, s.patience, func(inner testing.TB) {
		f(&scene{TB: inner, sys: s.sys, prefix: s.prefix, ctx: s.ctx, patience: s.patience})
	})
}

// grows fails if n rounds of f leave more than a few goroutines while the store is open.
func (s *scene) grows(n int, f func()) {
	s.Helper()
	for range 10 {
		f() // for what is made only once, or as often as there are connections
	}
	if before, after := leak.Growth(n, f); after > before+n/10 {
		s.Errorf("%d goroutines, %d after %d rounds", before, after, n)
	}
}
