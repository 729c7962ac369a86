package register_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// skewed is the way of a process whose wall clock is wrong.
type skewed struct {
	register.Store
	ahead time.Duration
}

func (s skewed) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	w, _ = register.SetWallClock(w, s.ahead)
	return s.Store.Swap(ctx, w)
}

// Somebody waits whose wall clock is wrong, so that he seems late to all who try.
func TestAWrongClockHasNobodyCalledAgainAndAgain(t *testing.T) {
	for _, ahead := range []time.Duration{3 * restTTL / 2, -12 * restTTL} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewStore()
			_, clients := asOnKubernetes(t, store, restTTL, 6)
			way := &tally{Store: store}
			_, wrong := asOnKubernetes(t, skewed{way, ahead}, restTTL, 1)
			within(t, time.Second, mutex.New(clients[0], "a").LockChan(t.Context()))
			mutex.New(wrong[0], "a").LockChan(t.Context())
			ctx, cancel := context.WithCancel(t.Context())
			for _, c := range clients[1:] {
				go func() {
					for ctx.Err() == nil {
						_, _ = mutex.New(c, "a").TryLock(ctx)
						time.Sleep(time.Second)
					}
				}()
			}
			time.Sleep(5 * time.Minute)
			before := way.swaps.Load()
			time.Sleep(10 * time.Minute)
			if n := (way.swaps.Load() - before) / 10; n > 24 {
				t.Errorf("%d swaps a minute, more than if he did not rest", n)
			}
			cancel()
			time.Sleep(restTTL)
		})
	}
}
