package register_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// droppable is a store whose database may be dropped while it is in use.
type droppable struct {
	register.Store
	dropped atomic.Bool
}

func (s *droppable) Read(ctx context.Context, key string) (register.Item, error) {
	if s.dropped.Load() {
		return register.Item{}, driver.ErrMissing
	}
	return s.Store.Read(ctx, key)
}

func (s *droppable) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	if s.dropped.Load() {
		return register.Item{}, driver.ErrMissing
	}
	return s.Store.Swap(ctx, w)
}

// Whoever comes while the database is dropped hears of it at once, like one who is denied.
func TestADatabaseThatIsDroppedIsSaidAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		store := &droppable{Store: memory.NewStore()}
		c := coord.NewClient(register.New(store))
		defer c.Close()
		if _, err := mutex.New(c, "a").Lock(ctx); err != nil {
			t.Fatal(err)
		}
		store.dropped.Store(true)
		for what, do := range map[string]func() error{
			"lock": func() error { _, err := mutex.New(c, "b").Lock(ctx); return err },
			"line": func() error { _, err := c.Line(ctx, "a"); return err },
		} {
			began := time.Now()
			if err := do(); !errors.Is(err, coord.ErrMissing) || time.Since(began) > time.Second {
				t.Errorf("%s, after %v: %v", what, time.Since(began), err)
			}
		}
	})
}
