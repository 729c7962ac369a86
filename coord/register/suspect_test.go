package register_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// crashing is a store as seen by a process that may die.
type crashing struct {
	register.Store
	dead chan struct{}
}

var errDead = errors.New("the process is dead")

func (c *crashing) Swap(ctx context.Context, s register.Swap) (register.Item, error) {
	select {
	case <-c.dead:
		return register.Item{}, errDead
	default:
		return c.Store.Swap(ctx, s)
	}
}

func process(store register.Store) (c *coord.Client, crash func()) {
	link := &crashing{store, make(chan struct{})}
	c = coord.NewClient(register.New(link))
	return c, func() {
		close(link.dead)
		c.Close()
	}
}

func try(t *testing.T, store register.Store) (*coord.Hold, error) {
	c, crash := process(store)
	h, err := mutex.New(c, "job").TryLock(t.Context())
	crash()
	return h, err
}

// A job is started every minute, and gives up if another one runs. One crashes.
func TestATryThatFindsADeadHolderDoesNotFindItForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		if _, err := try(t, store); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := try(t, store); !errors.Is(err, coord.ErrBusy) {
			t.Fatalf("a single look was enough: %v", err)
		}
		time.Sleep(time.Minute)
		if _, err := try(t, store); err != nil {
			t.Fatalf("two looks were not enough: %v", err)
		}
	})
}

func TestTriesNeverEndALivingSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		c, _ := process(store)
		defer c.Close()
		h, err := mutex.New(c, "job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			time.Sleep(7 * time.Second)
			if _, err := try(t, store); !errors.Is(err, coord.ErrBusy) {
				t.Fatalf("tried beside the holder: %v", err)
			}
		}
		if err := h.Release(); err != nil {
			t.Fatal(err)
		}
	})
}
