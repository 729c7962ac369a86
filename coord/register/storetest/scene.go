package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/attempt"
)

const (
	// soon is the time within which a note must arrive when nothing is in its way.
	soon = 3 * time.Second

	// ending is how long a call may go on after its ctx has ended, and slack what a busy machine may add to that.
	ending = 100 * time.Millisecond
	slack  = 150 * time.Millisecond
)

// scene is what a scenario plays on: keys and topics that nobody else uses.
type scene struct {
	testing.TB
	sys    *System
	prefix string
	ctx    context.Context // ends with the scenario

	// patience is how long the scenario waits for what must happen but may take time on a busy machine.
	patience time.Duration
}

var scenes atomic.Int64

// show plays the scenario, once more if it fails while the machine stands still for longer than calls are allowed to.
func (sc scenario) show(t *testing.T, sys *System) {
	attempt.Insist(t, ending, func(t testing.TB) { sc.play(t, sys) })
}

func (sc scenario) play(t testing.TB, sys *System) {
	s := &scene{TB: t, sys: sys, patience: attempt.Patience()}
	// Some do a thousand things, one after the other, perhaps on a busy machine.
	ctx, cancel := context.WithTimeout(context.Background(), 15*s.patience)
	t.Cleanup(cancel)
	s.ctx = ctx
	// A system that outlives the test may still have the registers of an earlier run.
	s.prefix = fmt.Sprintf("storetest %x/%d/", register.NewVersion(), scenes.Add(1))
	t.Cleanup(func() { s.sweep() })
	sc.run(s)
}

// sweep takes away the registers of the scene. Those that it cannot take away stay.
func (s *scene) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	c := &attempt.Cleaner{TB: s.TB}
	defer c.CleanUp()
	store := s.sys.Open(c)
	var all []register.Item
	_ = store.List(ctx, s.prefix, func(it register.Item) bool {
		all = append(all, it)
		return true
	})
	for _, it := range all {
		_, _ = store.Swap(ctx, register.Swap{Key: it.Key, Old: it.Version})
	}
}

// needs skips the scenario if the System does not have what it takes.
func (s *scene) needs(what string, missing bool) {
	s.Helper()
	if missing {
		s.Skipf("the system cannot %s", what)
	}
}

func (s *scene) needsToTell() {
	s.Helper()
	s.needs("tell of swaps", s.sys.Mute)
}

func (s *scene) open() register.Store {
	s.Helper()
	return s.sys.Open(s)
}

func (s *scene) opened(n int) (all []register.Store) {
	s.Helper()
	for range n {
		all = append(all, s.open())
	}
	return all
}

// key returns a key of the scene. Topics are made the same way.
func (s *scene) key(name string) string { return s.prefix + name }

// while returns a context for a call that must end in time.
func (s *scene) while() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.ctx, s.patience)
}

func (s *scene) read(store register.Store, key string) register.Item {
	s.Helper()
	ctx, cancel := s.while()
	defer cancel()
	it, err := store.Read(ctx, key)
	if err != nil {
		s.Fatalf("Read of %.60q: %v", key, err)
	}
	if it.Key != key {
		s.Errorf("Read of %.60q returned the key %.60q", key, it.Key)
	}
	return it
}

// swap makes a swap that must succeed.
func (s *scene) swap(store register.Store, sw register.Swap) register.Item {
	s.Helper()
	ctx, cancel := s.while()
	defer cancel()
	it, err := store.Swap(ctx, sw)
	if err != nil {
		s.Fatalf("Swap of %.60q from %x to %x: %v", sw.Key, sw.Old, sw.Next, err)
	}
	if wrong := unlike(it, register.Item{Key: sw.Key, Value: sw.Value, Version: sw.Next}); wrong != "" {
		s.Fatalf("what Swap returned: %s", wrong) // all that follows would say the same
	}
	return it
}

// put swaps a new value in, and returns what stands there then.
func (s *scene) put(store register.Store, key string, old register.Version, value string, notes ...register.Note) register.Item {
	s.Helper()
	return s.swap(store, register.Swap{Key: key, Old: old, Next: register.NewVersion(), Value: []byte(value), Notes: notes})
}

// remove empties a register.
func (s *scene) remove(store register.Store, it register.Item) {
	s.Helper()
	s.swap(store, register.Swap{Key: it.Key, Old: it.Version})
}

// conflicts makes a swap that must not be applied, and must bring what stands in the register.
func (s *scene) conflicts(store register.Store, sw register.Swap, stands register.Item) {
	s.Helper()
	ctx, cancel := s.while()
	defer cancel()
	it, err := store.Swap(ctx, sw)
	if !errors.Is(err, register.ErrConflict) {
		s.Fatalf("Swap of %.60q from %x to %x: %v, want ErrConflict: there stands %x", sw.Key, sw.Old, sw.Next, err, stands.Version)
	}
	s.same("what the conflict brought", it, stands)
	s.stands(store, stands)
}

// stands checks what stands in a register.
func (s *scene) stands(store register.Store, want register.Item) {
	s.Helper()
	s.same("what Read returned", s.read(store, want.Key), want)
}

// same compares items, but for the age.
func (s *scene) same(what string, got, want register.Item) {
	s.Helper()
	if wrong := unlike(got, want); wrong != "" {
		s.Errorf("%s: %s", what, wrong)
	}
}

// unlike says what is wrong with an item, or "".
func unlike(got, want register.Item) string {
	switch {
	case got.Key != want.Key || got.Version != want.Version || !bytes.Equal(got.Value, want.Value):
		return fmt.Sprintf("%s, want %s", brief(got), brief(want))
	case got.Version.IsZero() && got.Age != 0:
		return fmt.Sprintf("the age of an empty register is %v, and not zero", got.Age)
	}
	return ""
}

// brief formats an item for a failure.
func brief(it register.Item) string {
	if it.Version.IsZero() && len(it.Value) == 0 {
		return fmt.Sprintf("%.60q empty", it.Key)
	}
	return fmt.Sprintf("%.60q with %d bytes %.30q, version %x", it.Key, len(it.Value), it.Value, it.Version)
}

// listed lists the registers with a prefix, by key. None may come twice.
func (s *scene) listed(store register.Store, prefix string) map[string]register.Item {
	s.Helper()
	ctx, cancel := s.while()
	defer cancel()
	all := map[string]register.Item{}
	err := store.List(ctx, prefix, func(it register.Item) bool {
		if _, twice := all[it.Key]; twice {
			s.Errorf("List of %.60q shows %.60q twice", prefix, it.Key)
		}
		all[it.Key] = it
		return true
	})
	if err != nil {
		s.Fatalf("List of %.60q: %v", prefix, err)
	}
	return all
}

// eventually waits until cond is true, as it must become.
func (s *scene) eventually(d time.Duration, what string, cond func() bool) {
	s.Helper()
	for limit := time.Now().Add(d); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) && !cond() {
			s.Fatalf("not within %v: %s", d, what)
		}
	}
}

// again repeats a call that meets passing trouble until it succeeds, and gives up when patience ends.
func (s *scene) again(what string, call func(ctx context.Context) error) {
	s.Helper()
	var err error
	for limit := time.Now().Add(s.patience); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(s.ctx, 2*time.Second)
		err = call(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	s.Fatalf("%s: %v", what, err)
}
