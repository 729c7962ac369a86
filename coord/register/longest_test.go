package register_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// candid is a store that promises to say so when it has forgotten.
type candid struct{ *forgetful }

func (candid) Strength() driver.Strength {
	return driver.Strength{Restart: driver.ForgetsOpenly, Failover: driver.NoFailover, WakeUp: driver.Told}
}

func forgettingStore() (f *forgetful, forgets register.Store) {
	f = &forgetful{Store: memory.NewStore(), since: time.Now().Add(-24 * time.Hour)}
	return f, candid{f}
}

// A holder believes for as long as its TTL says. The store forgets, and with all else how long that is. The next one uses a
// short TTL, and has never heard of the holder.
func TestANewcomerWaitsForTheLongestTTLThatAnybodyMayHave(t *testing.T) {
	for name, all := range map[string][]register.Option{
		"by default":     {},
		"as all say":     {register.WithLongestTTL(time.Minute)},
		"as all say too": {register.WithLongestTTL(time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ttl := map[string]time.Duration{"by default": register.DefaultTTL, "as all say": time.Minute, "as all say too": time.Second}[name]
				f, store := forgettingStore()
				holder, s := open(t, store, append(all, register.WithTTL(ttl))...)
				defer shut(t, holder)
				join(t, s, "line")
				f.forget()
				f.Store = memory.NewStore()
				until := s.Deadline()
				newcomer, next := open(t, store, append(all, register.WithTTL(time.Second))...)
				defer shut(t, newcomer)
				if _, ahead, err := next.Join(t.Context(), driver.Entry{Line: "line", Kind: "lock"}); err != nil || len(ahead) > 0 {
					t.Fatalf("%v, %v", ahead, err)
				}
				if time.Now().Before(until) {
					t.Errorf("it stands first %v before the holder stops", time.Until(until))
				}
				if time.Since(until) > ttl {
					t.Errorf("it stands first only %v after the holder stopped", time.Since(until))
				}
			})
		})
	}
}

func TestATTLThatNobodyReckonsWithIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, store := forgettingStore()
		d := register.New(store, register.WithTTL(time.Hour))
		defer shut(t, d)
		if _, err := d.Open(t.Context()); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "WithLongestTTL") {
			t.Errorf("it opens: %v", err)
		}
		// It has stopped nobody else.
		began := time.Now()
		other, _ := open(t, store)
		defer shut(t, other)
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("another one waits %v", waited)
		}
	})
}

// Two say different things, so one of them would wait for too short when the store has forgotten.
func TestWhoeverReckonsWithAnotherLongestTTLIsRefused(t *testing.T) {
	for _, other := range []time.Duration{time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			_, store := forgettingStore()
			d, s := open(t, store)
			defer shut(t, d)
			at := register.New(store, register.WithTTL(time.Second), register.WithLongestTTL(other))
			defer shut(t, at)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := at.Open(ctx); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "10s") {
				t.Errorf("with %v it opens: %v", other, err)
			}
			leave(t, join(t, s, "line"))
			again, _ := open(t, store)
			shut(t, again)
		})
	}
}

func TestAStoreThatPromisesNothingTakesAnyTTL(t *testing.T) {
	for _, ttl := range []time.Duration{time.Hour, 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewStore()
			d, _ := open(t, store, register.WithTTL(ttl))
			defer shut(t, d)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, next := range []time.Duration{ttl, time.Second} {
				other := register.New(store, register.WithTTL(next))
				if _, err := other.Open(ctx); err != nil {
					t.Errorf("%v beside %v: %v", next, ttl, err)
				}
				shut(t, other)
			}
		})
	}
}

// Something else stands there: nobody waits in vain for it to go.
func TestSettingsThatNobodyCanReadAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, store := forgettingStore()
		_, err := store.Swap(t.Context(), register.Swap{Key: "settings", Next: register.NewVersion(), Value: []byte("\x02x")})
		if err != nil {
			t.Fatal(err)
		}
		d := register.New(store)
		defer shut(t, d)
		if _, err := d.Open(t.Context()); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "settings") {
			t.Errorf("it opens: %v", err)
		}
	})
}

// Who may make registers and change none makes the epoch, so that all new lines are refused. It is there from the first session on.
func TestNobodyMakesTheEpochAfterTheFirstSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, store := forgettingStore()
		d, s := open(t, store)
		defer shut(t, d)
		_, err := store.Swap(t.Context(), register.Swap{Key: "epoch", Next: register.NewVersion(), Value: []byte("x")})
		if !errors.Is(err, register.ErrConflict) {
			t.Errorf("he makes it: %v", err)
		}
		join(t, s, "fresh")
	})
}
