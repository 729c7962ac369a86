package memcached

import (
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

// goneForLong makes a register and removes it, so that another store has found it gone long ago.
func goneForLong(t *testing.T, s, pruning *Store, key string) {
	t.Helper()
	it := put(t, s, register.Item{Key: key}, "x")
	if _, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: key, Old: it.Version}); err != nil {
		t.Fatal(err)
	}
	listed(t, pruning, "")
	for nonce := range pruning.pruner.absent {
		pruning.pruner.absent[nonce] = time.Now().Add(-time.Hour)
	}
	if len(pruning.pruner.absent) != 1 {
		t.Fatalf("%d keys are without a register", len(pruning.pruner.absent))
	}
}

// One store is about to take keys away and has looked; then another makes the register.
func TestARegisterThatIsMadeBetweenTheLookAndThePruningIsListed(t *testing.T) {
	m := server(t)
	s, pruning := opened(t, m.Addr()), opened(t, m.Addr())
	goneForLong(t, s, pruning, "k")
	n := s.shelf("k")
	a := answers(t, pruning, get(pruning.shelfKey(n)))
	keys, err := decodeShelf(knownBy(t, pruning), a[0])
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}

	put(t, s, register.Item{Key: "k"}, "again")
	pruning.prune(within(t, time.Second), knownBy(t, pruning), n, a[0], keys, map[string]bool{"k": true})
	if got := listed(t, s, ""); len(got) != 1 {
		t.Errorf("it stands, and is not listed: %q", got)
	}
}

// A store has announced a register and not made it yet when all keys without a register are taken away.
func TestARegisterThatIsAboutToBeMadeStaysAnnounced(t *testing.T) {
	m := server(t)
	s, pruning := opened(t, m.Addr()), opened(t, m.Addr())
	goneForLong(t, s, pruning, "k")
	known := knownBy(t, s)
	err := s.with(within(t, 10*time.Second), func(c *conn, known *memory) error { return s.announce(t.Context(), c, known, "k") })
	if err != nil {
		t.Fatal(err)
	}
	listed(t, pruning, "")
	err = s.with(within(t, 10*time.Second), func(c *conn, _ *memory) error {
		_, _, err := s.apply(t.Context(), c, known, add(s.keyOf("k"), encode(known, "k", register.NewVersion(), nil)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := listed(t, s, ""); len(got) != 1 {
		t.Errorf("it stands, and is not listed: %q", got)
	}
}

// Nobody has come back: then the key goes.
func TestAKeyThatIsNotNeededGoes(t *testing.T) {
	m := server(t)
	s, pruning := opened(t, m.Addr()), opened(t, m.Addr())
	goneForLong(t, s, pruning, "k")
	listed(t, pruning, "")
	err := s.with(within(t, 10*time.Second), func(c *conn, known *memory) error {
		a, err := c.ask(t.Context(), get(s.shelfKey(s.shelf("k"))))
		if err != nil {
			return err
		}
		if keys, err := decodeShelf(known, a[0]); err != nil || len(keys) != 0 {
			t.Errorf("the directory has %v, %v", keys, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
