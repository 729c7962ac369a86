package register_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// unlisted is a store at the end of a link on which small answers arrive, and long ones do not.
type unlisted struct {
	register.Store
	trouble atomic.Bool
}

func (u *unlisted) List(ctx context.Context, prefix string, each func(register.Item) bool) error {
	if u.trouble.Load() {
		return errors.New("the list did not arrive")
	}
	return u.Store.List(ctx, prefix, each)
}

// Who can renew the sweeper's register, and cannot sweep, would keep all others from it.
func TestASweeperThatCannotSweepLeavesItToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		store := memory.NewStore()
		link := &unlisted{Store: store}
		sweeper, _ := open(t, link)
		defer shut(t, sweeper)
		time.Sleep(time.Minute) // so that it is the sweeper
		other, _ := open(t, store)
		defer shut(t, other)
		dying, s := open(t, store)
		defer shut(t, dying)
		join(t, s, "line")
		time.Sleep(time.Minute)
		link.trouble.Store(true)
		s.Abandon(ctx)
		time.Sleep(10 * time.Minute)
		if all, err := other.Line(ctx, "line"); err != nil || len(all) > 0 {
			t.Errorf("%v stand, %v", all, err)
		}
	})
}
