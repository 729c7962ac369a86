package register_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/recipes/semaphore"
)

// far is a store at the end of a network: requests take their time there and back, each a different time.
type far struct {
	register.Store
	most time.Duration
}

func (f *far) trip() { time.Sleep(rand.N(f.most)) }

func (f *far) Read(ctx context.Context, key string) (register.Item, error) {
	f.trip()
	defer f.trip()
	return f.Store.Read(ctx, key)
}

func (f *far) Swap(ctx context.Context, s register.Swap) (register.Item, error) {
	f.trip()
	defer f.trip()
	return f.Store.Swap(ctx, s)
}

func (f *far) Listen(ctx context.Context, topic string, hear func([]byte)) (func(), error) {
	return f.Store.Listen(ctx, topic, func(note []byte) {
		f.trip()
		hear(note)
	})
}

// A wake-up that is lost shows as a wait until the next look that nobody has asked for, which takes seconds.
func TestNoWakeUpIsLostAmongMany(t *testing.T) {
	const clients, rounds = 8, 30
	for name, use := range map[string]func(c *coord.Client) func(ctx context.Context, i int) (*coord.Hold, error){
		"writers and readers": func(c *coord.Client) func(ctx context.Context, i int) (*coord.Hold, error) {
			l := rwlock.New(c, "line")
			return func(ctx context.Context, i int) (*coord.Hold, error) {
				if i%3 == 0 {
					return l.Lock(ctx)
				}
				return l.RLock(ctx)
			}
		},
		"a few permits": permits(3),
		"many permits":  permits(12),
		"a single lock": permits(1),
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range 20 {
				synctest.Test(t, func(t *testing.T) {
					store := memory.NewStore()
					var all sync.WaitGroup
					var mu sync.Mutex
					var longest time.Duration
					for n := range clients {
						c := coord.NewClient(register.New(&far{store, time.Duration(n+1) * 200 * time.Microsecond}))
						defer c.Close()
						acquire := use(c)
						for range 2 {
							all.Go(func() {
								for i := range rounds {
									began := time.Now()
									h, err := acquire(t.Context(), i+n)
									if err != nil {
										t.Error(err)
										return
									}
									mu.Lock()
									longest = max(longest, time.Since(began))
									mu.Unlock()
									time.Sleep(rand.N(time.Millisecond))
									if err := h.Release(); err != nil {
										t.Error(err)
									}
								}
							})
						}
					}
					all.Wait()
					if longest > time.Second {
						t.Errorf("round %d: somebody waited for %v", seed, longest)
					}
				})
			}
		})
	}
}

func permits(n int64) func(c *coord.Client) func(ctx context.Context, i int) (*coord.Hold, error) {
	return func(c *coord.Client) func(ctx context.Context, i int) (*coord.Hold, error) {
		s := semaphore.New(c, fmt.Sprint("line of ", n), n)
		return func(ctx context.Context, i int) (*coord.Hold, error) {
			return s.Acquire(ctx, 1+int64(i)%min(n, 2))
		}
	}
}
