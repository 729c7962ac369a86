package register_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// A store without a clock tells nobody how long ago a session was renewed. Whoever is next has to see the last renewal early, whenever that
// was and whenever the holder dies; those behind him need not.
func TestADeathIsNoticedInTimeWithoutAClock(t *testing.T) {
	const ttl = time.Minute
	for after := ttl / 10; after < 2*ttl; after += ttl / 10 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			store := memory.NewStore()
			link := store.Link()
			client := func(s register.Store) *mutex.Mutex {
				c := coord.NewClient(register.New(timeless{s}, register.WithTTL(ttl)))
				t.Cleanup(func() { _ = c.Close() })
				return mutex.New(c, "line")
			}
			first, second, third := client(link), client(store), client(store)
			if _, err := first.Lock(ctx); err != nil {
				t.Fatal(err)
			}
			turn := make(chan time.Time, 1)
			for i, m := range []*mutex.Mutex{second, third} {
				go func() {
					h, err := m.Lock(ctx)
					if err != nil {
						return
					}
					if i == 0 {
						turn <- time.Now()
					}
					h.Release()
				}()
				time.Sleep(time.Second)
			}
			time.Sleep(after)
			heal := link.Cut()
			defer heal()
			began := time.Now()
			if took := (<-turn).Sub(began); took > ttl*5/4+2*time.Second {
				t.Errorf("%v after the holder had come it died, and the next one had the line %v later", after, took)
			}
		})
	}
}
