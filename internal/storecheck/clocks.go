package storecheck

import (
	"errors"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// PutRight checks that a server whose clock was an hour ahead, and was put right, keeps nobody waiting for that hour: neither for its
// memory, which says that it begins in an hour after predate was called, nor for a reservation of the register "reserved" that
// reserve has made, which ends in an hour. With c the longest TTL is a second or two.
func PutRight(t *testing.T, s register.Store, c *coord.Client, predate, reserve func()) {
	t.Helper()
	it := Put(t, s, register.Item{Key: "reserved"}, "by somebody")
	reserve()
	if _, err := s.Swap(Within(t, 10*time.Second), register.Swap{Key: it.Key, Old: it.Version, Next: register.NewVersion(), By: register.NewVersion()}); err != nil {
		if errors.Is(err, register.ErrConflict) {
			err = errors.New("it is reserved")
		}
		t.Errorf("swap: %v", err)
	}
	predate()
	mem, err := s.Memory(Within(t, 10*time.Second))
	if err != nil || mem.For > 0 {
		t.Fatalf("the memory is %+v, %v, so this shows nothing", mem, err)
	}
	if _, err := mutex.New(c, "a").Lock(Within(t, 30*time.Second)); err != nil {
		t.Errorf("lock: %v", err)
	}
}
