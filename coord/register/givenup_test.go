package register_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// outage counts what is asked, and may refuse or swallow all.
type outage struct {
	*memory.Store
	asked   atomic.Int64
	refuses atomic.Bool
	eats    atomic.Bool
}

func (c *outage) pass(ctx context.Context) error {
	c.asked.Add(1)
	switch {
	case c.refuses.Load():
		return errDown
	case c.eats.Load():
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (c *outage) Read(ctx context.Context, key string) (register.Item, error) {
	if err := c.pass(ctx); err != nil {
		return register.Item{}, err
	}
	return c.Store.Read(ctx, key)
}

func (c *outage) Swap(ctx context.Context, s register.Swap) (register.Item, error) {
	if err := c.pass(ctx); err != nil {
		return register.Item{}, err
	}
	return c.Store.Swap(ctx, s)
}

// A program that tries now and then, while the store is away, leaves nothing behind that would go on trying.
func TestTriesWhileTheStoreIsAwayLeaveNothing(t *testing.T) {
	for _, how := range []string{"refuses", "swallows"} {
		for _, lines := range []int{1, 100} {
			t.Run(fmt.Sprint(how, ", ", lines, " lines"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					way := &outage{Store: memory.NewStore()}
					c := coord.NewClient(register.New(way))
					defer c.Close()
					h, err := mutex.New(c, "first").Lock(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					_ = h.Release()
					time.Sleep(time.Minute)
					synctest.Wait()
					before := runtime.NumGoroutine()
					way.refuses.Store(how == "refuses")
					way.eats.Store(how == "swallows")
					for i := range 200 {
						ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
						_, _ = mutex.New(c, fmt.Sprint("line", i%lines)).TryLock(ctx)
						cancel()
						time.Sleep(500 * time.Millisecond)
					}
					asked := way.asked.Load()
					time.Sleep(time.Minute) // nobody wants anything now, but the session lives
					synctest.Wait()
					if more := runtime.NumGoroutine() - before; more > 20 {
						t.Errorf("%d goroutines are left", more)
					}
					if n := (way.asked.Load() - asked) / 60; n > 10 {
						t.Errorf("nobody wants anything, and %d requests a second are sent", n)
					}
					way.refuses.Store(false)
					way.eats.Store(false)
					time.Sleep(time.Minute)
				})
			})
		}
	}
}
