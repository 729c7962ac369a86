package storecheck

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
	"github.com/turnwise/turnwise/verify/servers"
)

// AfterRestart checks that whoever asks first after a server was started anew hears of it, although nothing was asked while it was
// away, and somebody only listened: the server may have an older disk. Whoever asks next has his answer.
func AfterRestart(t *testing.T, m *servers.Member, open func(ctx context.Context, url string) (register.Store, error)) {
	t.Helper()
	ctx := Within(t, 3*time.Minute)
	store, err := open(ctx, m.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if _, err := store.Memory(ctx); err != nil {
		t.Fatal(err)
	}
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
		defer stop()
		select {
		case <-listensAgain:
		case <-ctx.Done():
			t.Fatal("it does not listen again")
		}
	}
	told := false
	for {
		_, err := store.Read(ctx, "line/orders")
		switch {
		case err == nil:
			if !told {
				t.Error("nobody is told that the server was started anew")
			}
			return
		case errors.Is(err, register.ErrForgot):
			t.Fatal("it has forgotten nothing:", err)
		case errors.Is(err, storekit.ErrRestarted):
			if told = true; ctx.Err() != nil {
				t.Fatal("it is told again and again:", err)
			}
			time.Sleep(10 * time.Millisecond)
		case ctx.Err() != nil:
			t.Fatal(err)
		default: // it may not be ready yet
			time.Sleep(10 * time.Millisecond)
		}
	}
}
