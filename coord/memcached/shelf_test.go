package memcached

import (
	"errors"
	"fmt"
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
	a := answers(t, pruning, get(pruning.shelfKey(knownBy(t, pruning), n)))
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
		a, err := c.ask(t.Context(), get(s.shelfKey(known, s.shelf("k"))))
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

// Making a register reads no directory, so it takes no longer beside many others.
func TestANewRegisterCostsTheSameBesideManyOthers(t *testing.T) {
	m := server(t)
	s := opened(t, m.Addr())
	made := 0
	make := func(n int) time.Duration {
		begun := time.Now()
		for range n {
			made++
			put(t, s, register.Item{Key: fmt.Sprint("one of many ", made)}, "x")
		}
		return time.Since(begun)
	}
	make(100)
	before := make(400)
	make(15_000)
	if after := make(400); after > 8*before {
		t.Errorf("400 registers took %v when there were few, and %v beside 15,000", before, after)
	}
	if got := listed(t, s, ""); len(got) != made {
		t.Errorf("%d of %d are listed", len(got), made)
	}
}

// shelfOf reads the shelf that a key belongs on.
func shelfOf(t *testing.T, s *Store, key string) (size int, all []entry) {
	t.Helper()
	a := answers(t, s, get(s.shelfKey(knownBy(t, s), s.shelf(key))))
	all, err := decodeShelf(knownBy(t, s), a[0])
	if err != nil {
		t.Fatal(err)
	}
	return len(a[0].value), all
}

// A register that comes and goes leaves its key there once each time.
func TestADirectoryDoesNotGrowWithOneRegisterThatComesAndGoes(t *testing.T) {
	m := server(t)
	s := opened(t, m.Addr())
	s.largest.Store(800)
	announce := func(key string) error {
		return s.with(within(t, 10*time.Second), func(c *conn, known *memory) error { return s.announce(t.Context(), c, known, key) })
	}
	for range 1000 {
		if err := announce("k"); err != nil {
			t.Fatal(err)
		}
	}
	if size, all := shelfOf(t, s, "k"); size > 800 || latest(all)[0].key != "k" {
		t.Errorf("the shelf has %d bytes, and in it %v", size, latest(all))
	}
	listed(t, s, "") // takes away what is there too often
	if _, all := shelfOf(t, s, "k"); len(all) != 1 {
		t.Errorf("after a listing the shelf has %d keys", len(all))
	}

	full := 0
	for i := range 1000 {
		err := announce(fmt.Sprint("k", i))
		if errors.Is(err, register.ErrTooLarge) {
			full++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if full == 0 || full == 1000 {
		t.Errorf("%d of 1,000 keys found no room", full)
	}
	for n := range 16 {
		a := answers(t, s, get(s.shelfKey(knownBy(t, s), n)))
		if len(a[0].value) > 800 {
			t.Errorf("shelf %d has %d bytes", n, len(a[0].value))
		}
	}
	if err := announce("k"); err != nil {
		t.Errorf("a key that is there already finds no room: %v", err)
	}
}
