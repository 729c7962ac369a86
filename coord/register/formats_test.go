package register_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// put has a register hold what another version has written.
func put(t *testing.T, store register.Store, key string, value ...byte) {
	t.Helper()
	if it, err := store.Read(t.Context(), key); err != nil {
		t.Fatal(err)
	} else if _, err := store.Swap(t.Context(), register.Swap{Key: key, Old: it.Version, Next: register.NewVersion(), Value: value}); err != nil {
		t.Fatal(err)
	}
}

// What another version has written is refused for good, whoever comes across it, with a line that says which version is to be
// upgraded. It stays as it is.
func TestWhatAnotherVersionHasWrittenIsRefused(t *testing.T) {
	join := func(ctx context.Context, d *register.Driver) error {
		s, err := d.Open(ctx)
		if err == nil {
			_, _, err = s.Join(ctx, driver.Entry{Line: "line", Kind: rules.Lock, Sight: driver.Sight{Nearest: driver.All}})
		}
		return err
	}
	line := func(ctx context.Context, d *register.Driver) error {
		_, err := d.Line(ctx, "line")
		return err
	}
	remove := func(ctx context.Context, d *register.Driver) error {
		return d.Remove(ctx, driver.Node{Line: "line", ID: "00000000000000ff-1.0"})
	}
	forget := func(ctx context.Context, d *register.Driver) error { return d.Forget(ctx, "line") }
	const newer, older = "newer version", "older version"
	for name, c := range map[string]struct {
		key   string
		value []byte
		do    func(context.Context, *register.Driver) error
		says  string
	}{
		"a line, at a join":           {"line/line", []byte{3, 0, 1, 1}, join, newer},
		"an older line, at a join":    {"line/line", []byte{1, 0, 1, 1}, join, older},
		"a line that is looked at":    {"line/line", []byte{3, 0, 1, 1}, line, newer},
		"a line, at a removal":        {"line/line", []byte{3, 0, 1, 1}, remove, newer},
		"a line, at its memo's end":   {"line/line", []byte{3, 0, 1, 1}, forget, newer},
		"a line of somebody else's":   {"line/line", []byte("hello"), join, "not what turnwise writes"},
		"the epoch, at a line's make": {"epoch", []byte{2, 1, 7}, join, newer},
		"the settings, at an open":    {"settings", []byte{2, 0x90, 0x4e}, join, newer},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewStore()
				put(t, store, c.key, c.value...)
				d := register.New(store)
				defer func() { // what stands in a line that cannot be read is left to the TTL
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					_ = d.Close(ctx)
				}()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := c.do(ctx, d)
				if !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%v", err)
				}
				if it, err := store.Read(ctx, c.key); err != nil || string(it.Value) != string(c.value) {
					t.Errorf("it has become %q (%v)", it.Value, err)
				}
			})
		})
	}
}

// Nobody ends a session that he cannot read. Whoever waits for it says so in his log: it may have died.
func TestASessionOfANewerVersionIsLeftAloneAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		first, holder := open(t, store)
		defer shut(t, first)
		p, _, err := holder.Join(t.Context(), driver.Entry{Line: "line", Kind: rules.Lock})
		if err != nil {
			t.Fatal(err)
		}
		holder.Abandon(t.Context())
		session, _, _ := strings.Cut(p.Node().ID, "-")
		put(t, store, "session/"+session, 2, 1, 1, 1)
		var log strings.Builder
		second, waiter := open(t, store, register.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		defer shut(t, second)
		place, ahead, err := waiter.Join(t.Context(), driver.Entry{Line: "line", Kind: rules.Lock})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if _, err := place.Await(ctx, ahead); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the waiter: %v", err)
		}
		if it, err := store.Read(t.Context(), "session/"+session); err != nil || it.Version.IsZero() {
			t.Errorf("the session was ended (%v)", err)
		}
		if !strings.Contains(log.String(), "newer version") {
			t.Errorf("the log says %q", log.String())
		}
	})
}
