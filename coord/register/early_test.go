package register_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// A backup is put back that is older than the sessions. One who was there finds that his own has gone, long before anybody may end it.
// Somebody else may hold who is cut off, so nobody is let in before that one must have stopped. Where notes may be lost unsaid, an operator
// may have ended it. Anybody may have said that the session is over.
func TestWhoseSessionGoesBeforeItsTimeIsLetInLater(t *testing.T) {
	t.Run("without a word", func(t *testing.T) { goesEarly(t, false) })
	t.Run("after a word of a stranger", func(t *testing.T) { goesEarly(t, true) })
}

func goesEarly(t *testing.T, word bool) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		store := memory.NewStore()
		c := coord.NewClient(register.New(surely{store}, register.WithTTL(ttl)))
		defer c.Close()
		first, err := mutex.New(c, "one").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if word {
			session, _, _ := strings.Cut(first.Node().ID, "-")
			storecheck.Put(t, store, register.Item{Key: "his"}, "x", storecheck.SaidToBeOver(session))
			synctest.Wait()
		}
		gone := time.Now()
		if err := store.List(t.Context(), "session/", func(it register.Item) bool {
			_, err := store.Swap(t.Context(), register.Swap{Key: it.Key, Old: it.Version})
			return err == nil
		}); err != nil {
			t.Fatal(err)
		}
		<-first.Context().Done()
		second, err := mutex.New(c, "another").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if after := time.Since(gone); after < ttl {
			t.Errorf("let in after %v", after)
		}
		if err := second.Release(); err != nil {
			t.Error(err)
		}
	})
}

// Somebody has spoilt the register of a session. Nobody can tell from that whether it is dead, so it goes on, and nobody else is let in.
func TestASessionWritesOverWhatIsNoHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		holder, waiter := coord.NewClient(register.New(surely{store})), coord.NewClient(register.New(surely{store}))
		defer holder.Close()
		defer waiter.Close()
		h, err := mutex.New(holder, "one").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		session, _, _ := strings.Cut(h.Node().ID, "-")
		for range 3 {
			it, err := store.Read(t.Context(), "session/"+session)
			if err != nil {
				t.Fatal(err)
			}
			nonsense := register.Swap{Key: it.Key, Old: it.Version, Next: register.NewVersion(), Value: []byte(`{"stream":"turnwise","seq":7}`)}
			if _, err := store.Swap(t.Context(), nonsense); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*register.DefaultTTL)
			if _, err := mutex.New(waiter, "one").Lock(ctx); err == nil || h.Err() != nil {
				t.Fatalf("somebody is let in (%v), the holder: %v", err == nil, h.Err())
			}
			cancel()
		}
		if err := h.Release(); err != nil {
			t.Error(err)
		}
		if next, err := mutex.New(waiter, "one").Lock(t.Context()); err != nil || next.Release() != nil {
			t.Error(err)
		}
	})
}
