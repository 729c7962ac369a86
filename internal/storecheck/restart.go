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
		var store register.Reconnecting
		untilReady(ctx, t, func() (err error) {
			if store, err = open(ctx, m.URL()); err != nil {
				return err
			}
			t.Cleanup(func() { store.Close() })
			_, err = store.Memory(ctx)
			return err
		})
		return store
	}
	reads := func(store register.Store) error {
		_, err := store.Read(ctx, "line/orders")
		return err
	}
	remembers := func(store register.Store) error {
		_, err := store.Memory(ctx)
		return err
	}
	for _, c := range []struct {
		newcomer bool
		first    func(store register.Store) error
	}{{false, reads}, {true, reads}, {false, remembers}} {
		store := connect()
		runs := store.RunsSince()
		for range 5 { // some tell in whole seconds for how long they have been up
			time.Sleep(time.Second)
			if err := reads(store); err != nil {
				t.Fatal("before the restart:", err)
			}
		}
		if runs.IsZero() || store.RunsSince() != runs {
			t.Errorf("it runs since %v, and then since %v, without a restart", runs, store.RunsSince())
		}
		restarted := time.Now()
		restartUnasked(ctx, t, m, store)
		if c.newcomer {
			if err := reads(connect()); err != nil {
				t.Fatal("somebody new:", err)
			}
		}
		untilReady(ctx, t, func() error { return c.first(store) })
		if runs := store.RunsSince(); runs.Before(restarted) {
			t.Errorf("it was started anew %v ago, and answers as if it had run since %v; others were there first: %v", time.Since(restarted), runs, c.newcomer)
		}
	}
}

// untilReady tries until there is no error: a server that was started may not be ready yet.
func untilReady(ctx context.Context, t *testing.T, try func() error) {
	t.Helper()
	for err := try(); err != nil; err = try() {
		if errors.Is(err, register.ErrForgot) || ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// restartUnasked starts a server anew while somebody listens, where that is possible, and asks nothing.
func restartUnasked(ctx context.Context, t *testing.T, m *servers.Member, store register.Store) {
	t.Helper()
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
	if err != nil {
		return
	}
	select { // nobody hears what the listening meets with
	case <-listensAgain:
	case <-ctx.Done():
		t.Fatal("it does not listen again")
	}
	stop()
}
