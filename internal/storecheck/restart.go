package storecheck

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/verify/servers"
)

// AfterRestart checks that a store says that its server was started anew, although nothing was asked while that was away, and somebody only
// listened: the server may have an older disk. It says so when it has its first answer, and no request need fail. It is the same when
// others, who are new, were there before, and when it is the memory that is asked for first.
func AfterRestart(t *testing.T, m *servers.Member, open func(ctx context.Context, url string) (register.Reconnecting, error)) {
	t.Helper()
	ctx := Within(t, 3*time.Minute)
	connect := func() register.Reconnecting {
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
	reads := func(ctx context.Context, store register.Store) error {
		_, err := store.Read(ctx, "line/orders")
		return err
	}
	remembers := func(ctx context.Context, store register.Store) error {
		_, err := store.Memory(ctx)
		return err
	}
	for _, c := range []struct {
		newcomer bool
		first    func(ctx context.Context, store register.Store) error
	}{{false, reads}, {true, reads}, {false, remembers}} {
		store := connect()
		runs := store.RunsSince()
		for range 5 { // some tell in whole seconds for how long they have been up
			time.Sleep(time.Second)
			if _, err := store.Read(ctx, "line/orders"); err != nil {
				t.Fatal("before the restart:", err)
			}
		}
		if runs.IsZero() || store.RunsSince() != runs {
			t.Errorf("it runs since %v, and then since %v, without a restart", runs, store.RunsSince())
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
		restarted := time.Now()
		m.Restart(t)
		if err == nil { // nobody hears what the listening meets with
			select {
			case <-listensAgain:
			case <-ctx.Done():
				t.Fatal("it does not listen again")
			}
			stop()
		}
		if c.newcomer {
			if err := reads(ctx, connect()); err != nil {
				t.Fatal("somebody new:", err)
			}
		}
		for err := c.first(ctx, store); err != nil; err = c.first(ctx, store) {
			if errors.Is(err, register.ErrForgot) || ctx.Err() != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond) // it may not be ready yet
		}
		if runs := store.RunsSince(); runs.Before(restarted) {
			t.Errorf("it was started anew %v ago, and answers as if it had run since %v; others were there first: %v", time.Since(restarted), runs, c.newcomer)
		}
	}
}
