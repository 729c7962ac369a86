package register_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// reading counts reads of lines.
type reading struct {
	register.Store
	lines atomic.Int64
}

func (s *reading) Read(ctx context.Context, key string) (register.Item, error) {
	if strings.HasPrefix(key, "line/") {
		s.lines.Add(1)
		time.Sleep(100 * time.Millisecond)
	}
	return s.Store.Read(ctx, key)
}

func TestALineIsWatchedOnWhenItsRegisterHasBeenDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		sweeper, s := open(t, store)
		defer shut(t, sweeper)
		p := join(t, s, "line")
		epoch := p.Node().Token >> 28
		leave(t, p)
		time.Sleep(time.Minute) // so that it is this one who sweeps

		counted := &reading{Store: store}
		watcher, _ := open(t, counted)
		defer shut(t, watcher)
		seen := make(chan driver.Node, 1)
		go func() {
			n, _ := drivertest.FirstNode(t.Context(), watcher, "line", &driver.Node{})
			seen <- n
		}()
		time.Sleep(3 * time.Hour)
		before := counted.lines.Load()
		time.Sleep(time.Minute)
		if n := counted.lines.Load() - before; n > 60 {
			t.Errorf("%d looks in a minute", n)
		}
		p = join(t, s, "line")
		if n := <-seen; n.ID != p.Node().ID {
			t.Errorf("first is %v, want %v", n.ID, p.Node().ID)
		}
		if p.Node().Token>>28 == epoch {
			t.Error("the line was empty for hours, and was never deleted")
		}
		leave(t, p)
	})
}
