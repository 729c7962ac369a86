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

// gone is a store that the kernel tells who lives, until it is emptied.
type gone struct {
	present
	forgets forgetful
}

func (g *gone) Read(ctx context.Context, key string) (register.Item, error) {
	if err := g.forgets.err(); err != nil {
		return register.Item{}, err
	}
	return g.present.Read(ctx, key)
}

// A holder that hears of ErrForgot may take its time, since everybody waits. Whoever comes does not, if the store itself has not
// noticed, or if no session has a TTL.
func TestNobodyIsToldThatAllWaitWhereTheyDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		d, s := open(t, store)
		defer shut(t, d)
		var backup register.Item
		if err := store.List(t.Context(), "session/", func(it register.Item) bool { backup = it; return true }); err != nil {
			t.Fatal(err)
		}
		putBack(t, store, backup)
		endsOtherwise(t, s, "gone back")
		again, err := d.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		again.Close(t.Context())
	})
	synctest.Test(t, func(t *testing.T) {
		store := &gone{present: present{Store: memory.NewStore()}}
		d, s := open(t, store)
		defer shut(t, d)
		store.forgets.forget()
		endsOtherwise(t, s, "forgotten")
	})
}

func endsOtherwise(t *testing.T, s driver.Session, says string) {
	t.Helper()
	time.Sleep(register.DefaultTTL)
	select {
	case <-s.Done():
	default:
		t.Fatal("the session goes on")
	}
	why := s.(interface{ Why() error }).Why()
	if errors.Is(why, driver.ErrForgot) || !strings.Contains(why.Error(), says) {
		t.Errorf("it ends since %v", why)
	}
}
