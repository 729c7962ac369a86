package storecheck

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/verify/servers"
)

// AfterRestart checks that whoever asks first after a server was started anew hears of it, although nothing was asked while it was
// away, and somebody only listened: the server may have an older disk. Whoever asks next has his answer. It is the same when others,
// who are new, were there before.
func AfterRestart(t *testing.T, m *servers.Member, open func(ctx context.Context, url string) (register.Store, error)) {
	t.Helper()
	ctx := Within(t, 3*time.Minute)
	connect := func() register.Store {
		for {
			store, err := open(ctx, m.URL())
			if err == nil {
				_, err = store.Memory(ctx)
				t.Cleanup(func() { store.Close() })
			}
			if err == nil {
				return store
			}
			if ctx.Err() != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond) // it may not be ready yet
		}
	}
	for _, newcomer := range []bool{false, true} {
		store := connect()
		for range 5 { // some tell in whole seconds for how long they have been up
			time.Sleep(time.Second)
			if _, err := store.Read(ctx, "line/orders"); err != nil {
				t.Fatal("before the restart:", err)
			}
		}
		listensAgain := make(chan struct{}, 1)
		stop, err := store.Listen(ctx, "line/orders", func(note []byte) {
			if note == nil {
				select {
				case listensAgain <- struct{}{}:
				default:
				}
			}
		})
		if err != nil && !errors.Is(err, register.ErrMute) {
			t.Fatal(err)
		}
		m.Restart(t)
		if err == nil { // nobody hears what the listening meets with
			select {
			case <-listensAgain:
			case <-ctx.Done():
				t.Fatal("it does not listen again")
			}
			stop()
		}
		if newcomer {
			if _, err := connect().Read(ctx, "line/orders"); err != nil {
				t.Fatal("somebody new:", err)
			}
		}
		if !isTold(ctx, t, store) {
			t.Errorf("nobody is told that the server was started anew; others were there first: %v", newcomer)
		}
	}
}

// isTold asks until there is an answer, and reports whether one was told before that the server was started anew.
func isTold(ctx context.Context, t *testing.T, store register.Store) (told bool) {
	t.Helper()
	for {
		_, err := store.Read(ctx, "line/orders")
		switch {
		case err == nil:
			return told
		case errors.Is(err, register.ErrForgot):
			t.Fatal("it has forgotten nothing:", err)
		case ctx.Err() != nil:
			t.Fatal("it is told again and again:", err)
		case errors.Is(err, register.ErrRestarted):
			told = true
		}
		time.Sleep(10 * time.Millisecond) // it may not be ready yet
	}
}
