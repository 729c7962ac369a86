package register_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// tally counts the requests that come through it.
type tally struct {
	register.Store
	reads, swaps, conflicts, lists atomic.Int64
}

func (s *tally) Read(ctx context.Context, key string) (register.Item, error) {
	s.reads.Add(1)
	return s.Store.Read(ctx, key)
}

func (s *tally) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	it, err := s.Store.Swap(ctx, w)
	s.swaps.Add(1)
	if errors.Is(err, register.ErrConflict) {
		s.conflicts.Add(1)
	}
	return it, err
}

func (s *tally) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	s.lists.Add(1)
	return s.Store.List(ctx, prefix, yield)
}

// Whoever is told that it is his turn knows the line only as it was when he joined. He reads it before he leaves, and does
// not swap in vain.
func TestWhoWasLetInLeavesWithoutAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		second := &tally{Store: store}
		var locks []*mutex.Mutex
		for _, through := range []register.Store{store, second, store} {
			c := coord.NewClient(register.New(through))
			defer c.Close()
			locks = append(locks, mutex.New(c, "a"))
		}
		first, err := locks[0].Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		next := locks[1].LockChan(t.Context())
		time.Sleep(time.Second)
		last := locks[2].LockChan(t.Context())
		time.Sleep(time.Second)
		if err := first.Release(); err != nil {
			t.Fatal(err)
		}
		r := <-next
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		reads, swaps, conflicts := second.reads.Load(), second.swaps.Load(), second.conflicts.Load()
		if err := r.Hold.Release(); err != nil {
			t.Fatal(err)
		}
		if reads, swaps, conflicts = second.reads.Load()-reads, second.swaps.Load()-swaps, second.conflicts.Load()-conflicts; reads != 1 || swaps != 1 || conflicts != 0 {
			t.Errorf("to leave took %d reads and %d swaps, %d of them in vain", reads, swaps, conflicts)
		}
		if r := <-last; r.Err != nil {
			t.Fatal(r.Err)
		}
	})
}

// clockless is a store that has no clock.
type clockless struct{ register.Store }

func (s clockless) Read(ctx context.Context, key string) (register.Item, error) {
	it, err := s.Store.Read(ctx, key)
	it.Age, it.Clock = -1, 0
	return it, err
}

func (s clockless) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	it, err := s.Store.Swap(ctx, w)
	it.Age, it.Clock = -1, 0
	return it, err
}

func (s clockless) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	return s.Store.List(ctx, prefix, func(it register.Item) bool {
		it.Age, it.Clock = -1, 0
		return yield(it)
	})
}

// A leader and nine that wait for its place, with sessions of 10 s, ask a store for little while nothing happens. Each
// renews its session 24 times a minute, and that is most of it.
func TestCandidatesThatWaitAskForLittle(t *testing.T) {
	for _, kind := range []struct {
		name         string
		clock, sure  bool
		ttl          time.Duration
		reads, swaps int64
	}{
		{"notes may be lost", true, false, 10 * time.Second, 230, 260},
		{"notes may be lost, and there is no clock", false, false, 10 * time.Second, 300, 260},
		{"no note is lost unsaid, and there is no clock", false, true, 10 * time.Second, 265, 60},
		{"as on Kubernetes", false, true, 15 * time.Second, 180, 30},
	} {
		t.Run(kind.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var store register.Store = memory.NewStore()
				if !kind.clock {
					store = clockless{store}
				}
				count := &tally{Store: store}
				if store = count; kind.sure {
					store = surely{count}
				}
				for range 10 {
					c := coord.NewClient(register.New(store, register.WithTTL(kind.ttl)))
					defer c.Close()
					e := election.New(c, "a")
					go e.Run(t.Context(), nil, func(ctx context.Context, _ *election.Term) error { <-ctx.Done(); return nil })
				}
				time.Sleep(time.Minute)
				r, s, l := count.reads.Load(), count.swaps.Load(), count.lists.Load()
				time.Sleep(10 * time.Minute)
				r, s, l = (count.reads.Load()-r)/10, (count.swaps.Load()-s)/10, (count.lists.Load()-l)/10
				t.Logf("%d reads, %d swaps and %d lists a minute", r, s, l)
				if r > kind.reads || s > kind.swaps || l > 30 {
					t.Errorf("they ask for %d reads, %d swaps and %d lists a minute", r, s, l)
				}
			})
		})
	}
}

// The one that sweeps has died, and held a line that nobody waits for. The others look again as soon as it may be late.
func TestAnotherSweepsSoonAfterTheSweeperHasDied(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			store := memory.NewStore()
			sweeper, crash := process(store, 1)
			if _, err := mutex.New(sweeper, "a").Lock(ctx); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second)
			other, leave := process(store, 2)
			defer leave()
			if _, err := mutex.New(other, "b").Lock(ctx); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Minute)
			crash()
			died := time.Now()
			for {
				line, err := other.Line(ctx, "a")
				if err != nil {
					t.Fatal(err)
				}
				if len(line) == 0 {
					break
				}
				time.Sleep(time.Second)
			}
			if took := time.Since(died); took > 82*time.Second {
				t.Errorf("it stood there for %v", took)
			}
		})
	}
}
