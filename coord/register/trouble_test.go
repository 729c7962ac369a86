package register_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// replaceable is the way to a store. Another can be put in its place.
type replaceable struct {
	*memory.Store
	other atomic.Pointer[memory.Store]
	down  atomic.Bool
}

// to is where the way leads.
func (r *replaceable) to() *memory.Store { return cmp.Or(r.other.Load(), r.Store) }

var errDown = errors.New("connection refused")

func (r *replaceable) Read(ctx context.Context, key string) (register.Item, error) {
	if r.down.Load() {
		return register.Item{}, errDown
	}
	return r.to().Read(ctx, key)
}

func (r *replaceable) Swap(ctx context.Context, s register.Swap) (register.Item, error) {
	if r.down.Load() {
		return register.Item{}, errDown
	}
	return r.to().Swap(ctx, s)
}

// copyOf returns a store in which stands what stands in another now.
func copyOf(t *testing.T, old *memory.Store) *memory.Store {
	t.Helper()
	fresh := memory.NewStore()
	err := old.List(t.Context(), "", func(it register.Item) bool {
		_, err := fresh.Swap(t.Context(), register.Swap{Key: it.Key, Next: it.Version, Value: it.Value})
		return err == nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fresh
}

// A server is stopped, and comes back with an older disk, which it takes for its own. It knows the session of somebody who has seen
// more, and nothing of a holder, who is cut off.
func TestNobodyEntersAfterTroubleOnASessionFromAnOlderDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.NewStore()
		way := &replaceable{Store: server}
		d, s := open(t, way)
		defer shut(t, d)
		disk := copyOf(t, server)
		time.Sleep(register.DefaultTTL * 3 / 8) // it is renewed
		holding, holder := open(t, server)
		defer shut(t, holding)
		join(t, holder, "orders")
		way.down.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, _, err := s.Join(ctx, driver.Entry{Line: "something else", Kind: rules.Lock})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while the server is away: %v", err)
		}
		way.other.Store(disk)
		way.down.Store(false)
		if _, _, err := s.Join(t.Context(), driver.Entry{Line: "orders", Kind: rules.Lock}); err == nil {
			t.Error("somebody enters beside the holder")
		}
	})
}

// While nothing fails, and after what says nothing of the store, nobody asks more than before.
func TestWithoutTroubleNobodyProvesHisSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		way := &tally{Store: memory.NewStore()}
		d, s := open(t, way)
		defer shut(t, d)
		leave(t, join(t, s, "line"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, _ = s.Join(ctx, driver.Entry{Line: "line", Kind: rules.Lock})
		synctest.Wait()
		before := way.reads.Load() + way.swaps.Load()
		leave(t, join(t, s, "line"))
		if n := way.reads.Load() + way.swaps.Load() - before; n > 2 {
			t.Errorf("a turn takes %d requests", n)
		}
	})
}

// barred is a store in which sessions may be made, and not renewed.
type barred struct {
	*replaceable
	bar atomic.Bool
}

func (b *barred) Swap(ctx context.Context, s register.Swap) (register.Item, error) {
	if b.bar.Load() && strings.HasPrefix(s.Key, "session/") && !s.Old.IsZero() {
		return register.Item{}, fmt.Errorf("%w: UPDATE on sessions", driver.ErrDenied)
	}
	return b.replaceable.Swap(ctx, s)
}

func TestWhoMayNotRenewHisSessionAfterTroubleIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		way := &barred{replaceable: &replaceable{Store: memory.NewStore()}}
		d, s := open(t, way)
		defer shut(t, d)
		way.down.Store(true)
		way.bar.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, _, _ = s.Join(ctx, driver.Entry{Line: "orders", Kind: rules.Lock})
		way.down.Store(false)
		ctx, cancel = context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, _, err := s.Join(ctx, driver.Entry{Line: "orders", Kind: rules.Lock}); !errors.Is(err, driver.ErrDenied) {
			t.Errorf("he is told: %v", err)
		}
		way.bar.Store(false)
		time.Sleep(3 * time.Second)
		leave(t, join(t, s, "orders"))
	})
}

// A waiter is told that it is his turn, and cannot enter, since a request has failed. Then an older disk comes back on which the one ahead
// stands as before. His session is renewed on it, and he waits on: the one ahead may have been cut off all that time.
func TestATurnThatWasToldBeforeAnOlderDiskIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memory.NewStore()
		other, ahead := open(t, server)
		defer shut(t, other)
		first := join(t, ahead, "orders")
		way := &replaceable{Store: server}
		d, s := open(t, way)
		defer shut(t, d)
		waiter, wait, err := s.Join(t.Context(), driver.Entry{Line: "orders", Kind: rules.Lock})
		if err != nil || len(wait) != 1 {
			t.Fatal(wait, err)
		}
		entered := make(chan []driver.Node, 1)
		go func() {
			wait, err := waiter.Await(t.Context(), wait)
			if err != nil {
				t.Error(err)
			}
			entered <- wait
		}()
		time.Sleep(time.Second)
		way.down.Store(true) // requests fail; what is told is heard
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, _, _ = s.Join(ctx, driver.Entry{Line: "something else", Kind: rules.Lock})
		disk := copyOf(t, server)
		leave(t, first)
		time.Sleep(100 * time.Millisecond)
		way.other.Store(disk)
		way.down.Store(false)
		if still := <-entered; len(still) != 1 || still[0].ID != wait[0].ID {
			t.Errorf("%v is ahead, not %v", still, wait)
		}
	})
}

// reconnects is a store that connects again by itself, so that no request fails when another server is put in its place.
type reconnects struct {
	*replaceable
	runs atomic.Pointer[time.Time]
}

func (r *reconnects) RunsSince() time.Time { return *r.runs.Load() }

func (r *reconnects) since(t time.Time) { r.runs.Store(&t) }

// The same when no request fails: the store says since when the server runs, or that it does not know.
func TestNobodyEntersOnASessionFromAnOlderDiskThoughNothingFails(t *testing.T) {
	for _, isKnown := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			server := memory.NewStore()
			way := &reconnects{replaceable: &replaceable{Store: server}}
			way.since(time.Now())
			d, s := open(t, way)
			defer shut(t, d)
			disk := copyOf(t, server)
			time.Sleep(register.DefaultTTL * 3 / 8) // it is renewed
			leave(t, join(t, s, "orders"))
			holding, holder := open(t, server)
			defer shut(t, holding)
			join(t, holder, "orders")
			way.other.Store(disk)
			if way.since(time.Now()); !isKnown {
				way.since(time.Time{})
			}
			if _, _, err := s.Join(t.Context(), driver.Entry{Line: "orders", Kind: rules.Lock}); err == nil {
				t.Errorf("somebody enters beside the holder; since when the server runs is known: %v", isKnown)
			}
		})
	}
}

// While it is not known whether the server is another one, each who enters has his session renewed, and nobody is kept out.
func TestWhoseServerMayBeAnotherOneAnyTimeEnters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		way := &reconnects{replaceable: &replaceable{Store: memory.NewStore()}}
		way.since(time.Time{})
		d, s := open(t, way)
		defer shut(t, d)
		began := time.Now()
		const turns = 100
		for range turns {
			leave(t, join(t, s, "line"))
		}
		if took := time.Since(began); took > turns*time.Second/10 {
			t.Errorf("%d turns took %v", turns, took)
		}
	})
}
