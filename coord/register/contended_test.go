package register_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
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

// reservedFor is a store in which somebody else has each next swap of a line reserved, for a while.
type reservedFor struct {
	register.Store
	until time.Time
	asked atomic.Int64
}

func (r *reservedFor) Swap(ctx context.Context, s register.Swap) (register.Item, error) {
	if !strings.HasPrefix(s.Key, "line/") || s.Old.IsZero() || time.Now().After(r.until) || r.asked.Add(1) > 10_000 {
		return r.Store.Swap(ctx, s)
	}
	it, err := r.Store.Read(ctx, s.Key)
	return it, cmp.Or(err, register.ErrConflict)
}

// Whoever meets a reservation does not ask thousands of times a second whether it has ended.
func TestAReservationOfOthersIsNotAskedForAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &reservedFor{Store: memory.NewStore()}
		c := coord.NewClient(register.New(store))
		defer c.Close()
		h, err := rwlock.New(c, "a").RLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		store.until = time.Now().Add(time.Second)
		if err := h.Release(); err != nil {
			t.Error(err)
		}
		if n := store.asked.Load(); n < 10 || n > 2000 {
			t.Errorf("it asked %d times in a second", n)
		}
	})
}
