package register_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// present is a store that knows whether a process lives, for as long as the test does.
type present struct {
	register.Store
	kept  atomic.Int32
	swaps atomic.Int32 // of sessions
}

func (s *present) Keep(context.Context, string) (release func(), err error) {
	s.kept.Add(1)
	return func() { s.kept.Add(-1) }, nil
}

func (s *present) Unkept(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

func (s *present) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	if strings.HasPrefix(w.Key, "session/") {
		s.swaps.Add(1)
	}
	return s.Store.Swap(ctx, w)
}

// Where the kernel tells who lives, a session is kept and not renewed, and no clock ends it.
func TestASessionThatTheKernelKeepsIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &present{Store: memory.NewStore()}
		d, s := open(t, store)
		if n := store.kept.Load(); n != 1 {
			t.Errorf("%d keys are kept for a session", n)
		}
		time.Sleep(10 * register.DefaultTTL)
		if n := store.swaps.Load(); n != 1 {
			t.Errorf("its register was swapped %d times", n)
		}
		if left := time.Until(s.Deadline()); left < 24*time.Hour {
			t.Errorf("it ends in %v", left)
		}
		shut(t, d)
		if n := store.kept.Load(); n != 0 {
			t.Errorf("after Close %d keys are kept", n)
		}
	})
}

// closing is a store whose driver is closed while a session is made.
type closing struct {
	*present
	driver *register.Driver
}

func (s *closing) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	it, err := s.present.Swap(ctx, w)
	if d := s.driver; d != nil && strings.HasPrefix(w.Key, "session/") {
		s.driver = nil
		_ = d.Close(context.WithoutCancel(ctx))
	}
	return it, err
}

func TestASessionThatIsMadeWhileTheDriverIsClosedIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &closing{present: &present{Store: memory.NewStore()}}
		d := register.New(store)
		store.driver = d
		if _, err := d.Open(t.Context()); err == nil {
			t.Fatal("a session is opened by a driver that is closed")
		}
		if n := store.kept.Load(); n != 0 {
			t.Errorf("%d keys are kept", n)
		}
	})
}
