package register_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// stuck is a store in which some registers cannot be swapped: somebody has spoilt them, or keeps them locked.
type stuck struct {
	register.Store
	is    func(key string) bool
	hangs bool
}

func (s stuck) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	if !s.is(w.Key) {
		return s.Store.Swap(ctx, w)
	}
	if s.hangs {
		<-ctx.Done()
		return register.Item{}, ctx.Err()
	}
	return register.Item{}, errors.New("no swap of this one succeeds")
}

// waysToBeStuck are all of them, with as many registers as somebody may spoil who has a right to some.
func waysToBeStuck(t *testing.T, do func(t *testing.T, store *memory.Store, link stuck, spoil func())) {
	const many = 30
	for name, hangs := range map[string]bool{"fail": false, "hang": true} {
		for _, what := range []string{"lines", "sessions", "data"} {
			t.Run(what+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := memory.NewStore()
					var spoilt sync.Map // keys
					link := stuck{Store: store, hangs: hangs, is: func(key string) bool { _, is := spoilt.Load(key); return is }}
					do(t, store, link, func() {
						for n := range many {
							dying, s := open(t, store)
							p := join(t, s, fmt.Sprint("stuck/", n))
							id, _, _ := strings.Cut(p.Node().ID, "-")
							key := map[string]string{"lines": fmt.Sprint("line/stuck/", n), "sessions": "session/" + id, "data": "data/" + id + "-9.1"}[what]
							if what == "data" {
								aside := register.Swap{Key: key, Next: register.NewVersion(), Value: []byte("x")}
								if _, err := store.Swap(t.Context(), aside); err != nil {
									t.Fatal(err)
								}
							}
							spoilt.Store(key, true)
							s.Abandon(t.Context())
							shut(t, dying)
						}
					})
				})
			})
		}
	}
}

// Whoever spoils some registers harms those. What the dead have left elsewhere is cleared away as soon as ever.
func TestWhatCannotBeSweptKeepsNobodyFromSweepingTheRest(t *testing.T) {
	waysToBeStuck(t, func(t *testing.T, store *memory.Store, link stuck, spoil func()) {
		sweeper, s := open(t, link)
		defer shut(t, sweeper)
		leave(t, join(t, s, "old"))
		spoil()
		time.Sleep(90 * time.Minute)
		if it, err := store.Read(t.Context(), "line/old"); err != nil || !it.Version.IsZero() {
			t.Errorf("an old line stands, %v", err)
		}
		for range 10 {
			dying, s := open(t, store)
			join(t, s, "orders")
			s.Abandon(t.Context())
			shut(t, dying)
			began := time.Now()
			for time.Since(began) < time.Hour {
				if all, err := sweeper.Line(t.Context(), "orders"); err != nil {
					t.Fatal(err)
				} else if len(all) == 0 {
					break
				}
				time.Sleep(time.Second)
			}
			if d := time.Since(began); d > 40*time.Second {
				t.Fatalf("the dead stood for %v", d)
			}
			time.Sleep(17 * time.Second)
		}
	})
}
