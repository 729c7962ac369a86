package register_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// misdated is a store whose clock says what it likes about the age of its memory.
type misdated struct {
	register.Store
	says func() time.Duration
}

func (m misdated) Memory(ctx context.Context) (register.Memory, error) {
	mem, err := m.Store.Memory(ctx)
	mem.For = m.says()
	return mem, err
}

func waited(t *testing.T, store register.Store) time.Duration {
	c := coord.NewClient(register.New(store))
	defer c.Close()
	begun := time.Now()
	if _, err := mutex.New(c, "a").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	return time.Since(begun)
}

// A server was started with a clock that was an hour ahead, and that was put right. Who has seen its memory for the longest TTL
// himself needs no clock to know that nobody else believes in anything that it has forgotten.
func TestAClockThatWasPutRightKeepsNobodyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begins := time.Now().Add(time.Hour)
		took := waited(t, misdated{memory.NewStore(), func() time.Duration { return time.Since(begins) }})
		if took < 10*time.Second || took > 12*time.Second {
			t.Errorf("granted after %v", took)
		}
	})
}

// The server was restarted meanwhile, as its clock says: what it has may be older than what we saw.
func TestWhatWasSeenBeforeARestartDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead, restart := time.Now().Add(time.Hour), time.Now().Add(8*time.Second)
		took := waited(t, misdated{memory.NewStore(), func() time.Duration {
			if time.Now().Before(restart) {
				return time.Since(ahead)
			}
			return time.Since(restart)
		}})
		if took < 18*time.Second || took > 20*time.Second {
			t.Errorf("granted after %v, and it was restarted after 8 s", took)
		}
	})
}

// A try on a service that may have forgotten who holds finds out that somebody may hold, and not that the service is away.
func TestATryWhileNobodyIsGrantedAnythingSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		c := coord.NewClient(register.New(misdated{memory.NewStore(), func() time.Duration { return time.Since(begun) }}))
		defer c.Close()
		_, err := mutex.New(c, "a").TryLock(t.Context())
		if !errors.Is(err, coord.ErrBusy) || errors.Is(err, coord.ErrUnavailable) || !strings.Contains(err.Error(), "for another 8") {
			t.Errorf("try: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err = mutex.New(c, "a").Lock(ctx)
		if !errors.Is(err, coord.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "for another 5") {
			t.Errorf("lock: %v", err)
		}
	})
}
