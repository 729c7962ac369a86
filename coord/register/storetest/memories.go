package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

var memories = []scenario{
	{name: "the memory of a store that forgets nothing stays", run: memoryStays},
	{name: "the memory of a store that may forget grows older", run: memoryGrows},
	{name: "after a restart all is there, or the store says that it may have forgotten", alone: true, run: restartForgetsNothing},
	{name: "a store that has forgotten says so until it is asked for its memory", alone: true, run: forgotten},
	{name: "what is thrown away does not count as empty", alone: true, run: thrownAway},
}

// remembers returns the memory of a store.
func (s *scene) remembers(store register.Store) register.Memory {
	s.Helper()
	var m register.Memory
	s.again("Memory", func(ctx context.Context) (err error) {
		m, err = store.Memory(ctx)
		return err
	})
	if m.For < 0 { // no clock of a test was set back
		s.Errorf("it remembers everything for %v", m.For)
	}
	if m.ID == "" { // whoever compares it would take it for that of nobody
		s.Fatal("the memory has no ID")
	}
	return m
}

func memoryStays(s *scene) {
	a, b := s.open(), s.open()
	first, at := s.remembers(a), time.Now()
	time.Sleep(50 * time.Millisecond)
	for _, store := range []register.Store{a, b, s.open()} {
		m := s.remembers(store)
		if m.ID != first.ID {
			s.Errorf("the memory is %q, and was %q", m.ID, first.ID)
		}
		if m.For < first.For {
			s.Errorf("it remembers everything for %v, and did for %v a moment ago", m.For, first.For)
		}
		if grown := m.For - first.For; grown > time.Since(at)+time.Second {
			s.Errorf("it remembers everything for %v longer than %v ago", grown, time.Since(at))
		}
	}
}

// Nobody is let in until it is as old as the longest TTL.
func memoryGrows(s *scene) {
	a := s.open()
	first := s.remembers(a)
	if first.For == register.Forever {
		s.Skip("the store never forgets")
	}
	for at := time.Now(); ; time.Sleep(100 * time.Millisecond) { // some stores count whole seconds, and begin late
		if m := s.remembers(a); m.For > first.For {
			return
		} else if time.Since(at) > s.patience {
			s.Fatalf("it remembers everything for %v, and did for %v %v ago: nobody is ever let in unless that grows", m.For, first.For, s.patience)
		}
	}
}

func restartForgetsNothing(s *scene) {
	s.needs("be restarted", s.sys.Restart == nil)
	stores := s.opened(2)
	before := s.remembers(stores[0])
	s.remembers(stores[1])
	want := s.putMany(stores, 50, "k")
	at := time.Now()
	s.sys.Restart(s)
	for _, store := range stores {
		for key, it := range want {
			var got register.Item
			var err error
			for limit := time.Now().Add(s.patience); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
				ctx, cancel := context.WithTimeout(s.ctx, 2*time.Second)
				got, err = store.Read(ctx, key)
				cancel()
				if err == nil || errors.Is(err, register.ErrForgot) {
					break
				}
			}
			if errors.Is(err, register.ErrForgot) {
				if m := s.remembers(store); m.ID == before.ID {
					s.Errorf("%v, and yet the memory is %q as before", err, m.ID)
				}
				s.read(store, key)
				break
			}
			if err != nil {
				s.Fatalf("Read after a restart: %v", err)
			}
			s.same("what Read returned after a restart", got, it)
		}
	}
	// It may have been started with less than it had, while who holds by that is cut off. So whoever is new waits.
	for _, store := range append(stores, s.open()) {
		if m := s.remembers(store); m.For != register.Forever && m.For > time.Since(at) {
			s.Errorf("it says that it remembers everything for %v, and was restarted %v ago: say Forever, or begin anew after a restart", m.For, time.Since(at))
		}
	}
	// All goes on.
	it := s.read(stores[0], s.key("k0"))
	it = s.put(stores[1], it.Key, it.Version, "after the restart")
	s.stands(stores[0], it)
}

// Whoever meets an empty register is about to make a line there, beside whoever holds it.
func thrownAway(s *scene) {
	s.needs("be made to throw something away", s.sys.Lose == nil)
	calls := map[string]func(ctx context.Context, store register.Store, key string) error{
		"Read": func(ctx context.Context, store register.Store, key string) error {
			_, err := store.Read(ctx, key)
			return err
		},
		"Swap": func(ctx context.Context, store register.Store, key string) error {
			_, err := store.Swap(ctx, register.Swap{Key: key, Next: register.NewVersion(), Value: []byte("anew")})
			return err
		},
		"List": func(ctx context.Context, store register.Store, key string) error {
			return store.List(ctx, key, func(register.Item) bool { return true })
		},
	}
	for what, call := range calls {
		store := s.open()
		before := s.remembers(store)
		it := s.put(store, s.key("thrown away "+what), register.Version{}, "x")
		s.sys.Lose(s, it.Key)
		ctx, cancel := s.while()
		err := call(ctx, store, it.Key)
		cancel()
		if !errors.Is(err, register.ErrForgot) {
			s.Errorf("%s of what was thrown away: %v, want ErrForgot", what, err)
			continue
		}
		if m := s.remembers(store); m.ID == before.ID {
			s.Errorf("%s: the memory is %q as before", what, m.ID)
		}
		s.put(store, it.Key, s.read(store, it.Key).Version, "anew")
	}
}

func forgotten(s *scene) {
	s.needs("be made to forget", s.sys.Forget == nil)
	stores := s.opened(2)
	before := s.remembers(stores[0])
	s.remembers(stores[1])
	for _, store := range stores {
		s.put(store, s.key("k"), s.read(store, s.key("k")).Version, "x")
	}
	var e *ear
	if !s.sys.Mute {
		e = s.listen(stores[0], s.key("t"))
	}
	since := time.Now()
	s.sys.Forget(s)
	sw := register.Swap{Key: s.key("after"), Next: register.NewVersion(), Value: []byte("x")}
	for i, store := range stores {
		for what, call := range s.calls(store, sw) {
			if what == "Memory" || what == "Keep" || what == "Unkept" || what == "Listen" && s.sys.Mute {
				continue
			}
			var err error
			for limit := time.Now().Add(s.patience); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
				ctx, cancel := context.WithTimeout(s.ctx, 2*time.Second)
				err = call(ctx)
				cancel()
				if err == nil || errors.Is(err, register.ErrForgot) {
					break
				}
			}
			if !errors.Is(err, register.ErrForgot) {
				s.Errorf("store %d: %s after it has forgotten: %v, want ErrForgot", i, what, err)
			}
		}
	}
	for _, store := range stores {
		m := s.remembers(store)
		if m.ID == before.ID {
			s.Errorf("the memory is %q as before", m.ID)
		}
		if m.For > time.Since(since)+time.Second {
			s.Errorf("it says that it remembers everything for %v; it has forgotten something %v ago", m.For, time.Since(since))
		}
		if it := s.read(store, sw.Key); it.Version == sw.Next {
			s.Error("a swap that was refused because the store had forgotten was applied")
		}
	}
	it := s.put(stores[1], s.key("anew"), register.Version{}, "x")
	s.stands(stores[0], it)
	if e == nil {
		return
	}
	n := 0
	s.eventually(s.patience, "one who listened before hears again", func() bool {
		n++
		it = s.put(stores[1], it.Key, it.Version, "x", register.Note{Topic: e.topic, Text: fmt.Append(nil, n)})
		time.Sleep(20 * time.Millisecond)
		return e.heardNote(fmt.Sprint(n))
	})
}
