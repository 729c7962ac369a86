package memcached

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
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

	put(t, s, register.Item{Key: "k"}, "x")
	full := 0
	for i := range 1000 {
		_, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: fmt.Sprint("k", i), Next: register.NewVersion()})
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

// besides is a key on the shelf of another one.
func besides(s *Store, key string) string {
	for {
		if other := fmt.Sprintf("session/%x", register.NewVersion()); s.shelf(other) == s.shelf(key) {
			return other
		}
	}
}

// Many live for a moment each, and nobody long enough to find that a register is gone for long. What they leave in the directory
// keeps nobody from making another one.
func TestADirectoryHasRoomAfterManyThatLivedForAMoment(t *testing.T) {
	m := server(t)
	s := opened(t, m.Addr())
	stays := put(t, s, register.Item{Key: "stays"}, "x")
	s.largest.Store(800)
	for range 300 {
		storecheck.Remove(t, s, put(t, s, register.Item{Key: besides(s, "stays")}, "x"))
	}
	if got := listed(t, s, ""); len(got) != 1 || got[0] != stays.Key {
		t.Errorf("listed: %q", got)
	}
}

// Somebody has announced a register, and is held up before he makes it. Others need the room in the directory.
func TestAKeyThatIsTakenAwayForItsRoomIsAnnouncedAgain(t *testing.T) {
	m := server(t)
	s, late := opened(t, m.Addr()), opened(t, m.Addr())
	announced(t, late, "k")
	s.largest.Store(800)
	there := func(e entry) bool { return e.key == "k" }
	for _, all := shelfOf(t, s, "k"); slices.ContainsFunc(all, there); _, all = shelfOf(t, s, "k") {
		announced(t, s, besides(s, "k"))
	}
	value := encode(knownBy(t, late), "k", register.NewVersion(), nil)
	if a := answers(t, late, add(late.keyOf("k"), value))[0]; a.code != "NS" {
		t.Errorf("it is made, and not listed: %q", a.code)
	}
	put(t, late, read(t, late, "k"), "x")
	if got := listed(t, s, "k"); len(got) != 1 {
		t.Errorf("listed: %q", got)
	}
}

// Two announce one register at once. One makes it; the other finds no room, and takes away what it has put there itself.
func TestWhoFindsNoRoomTakesNoOthersKeyAway(t *testing.T) {
	for name, merge := range map[string]func(*testing.T, *Store){
		"after a squeeze": func(t *testing.T, s *Store) { squeezed(t, s, entry{key: "k"}) },
		"after a listing": func(t *testing.T, s *Store) { listed(t, s, "") },
	} {
		t.Run(name, func(t *testing.T) {
			m := server(t)
			s, late := opened(t, m.Addr()), opened(t, m.Addr())
			for range 8 { // about to be made, and there more often than a listing lets stand
				announced(t, s, "k")
			}
			known := knownBy(t, late)
			e := entry{key: "k", nonce: register.NewVersion()}
			if a := answers(t, late, extend(late.shelfKey(known, late.shelf("k")), e.append(nil))); a[0].code != "HD" {
				t.Fatal(a[0].code)
			}
			merge(t, s)
			answers(t, s, add(s.keyOf("k"), encode(known, "k", register.NewVersion(), nil)))
			late.largest.Store(1)
			if err := squeezed(t, late, e); !errors.Is(err, register.ErrTooLarge) {
				t.Fatalf("there was room: %v", err)
			}
			if got := listed(t, s, ""); len(got) != 1 {
				t.Errorf("it stands, and is not listed: %q", got)
			}
		})
	}
}

func announced(t *testing.T, s *Store, key string) {
	t.Helper()
	if err := s.with(within(t, 10*time.Second), func(c *conn, known *memory) error { return s.announce(t.Context(), c, known, key) }); err != nil {
		t.Fatal(err)
	}
}

func squeezed(t *testing.T, s *Store, e entry) error {
	return s.with(within(t, 10*time.Second), func(c *conn, known *memory) error { return s.squeeze(t.Context(), c, known, e) })
}

// A server without memory to spare appends nothing, and does not say why. Whoever makes a register is told so at once, and what
// stands there stays.
func TestAServerThatHasNoRoomForAKeyIsNotAskedAgainAndAgain(t *testing.T) {
	m := server(t, "-m", "2")
	s := opened(t, m.Addr())
	known := knownBy(t, s)
	it := put(t, s, register.Item{Key: "k"}, "x")
	shelf := s.shelfKey(known, s.shelf("k"))
	for i, code := 0, "HD"; code == "HD"; i++ {
		code = answers(t, s, add(fmt.Sprint("fill", i), make([]byte, 20_000)))[0].code
	}
	e := entry{key: "k", nonce: register.NewVersion()}
	for code := "HD"; code != "NS"; {
		if code = answers(t, s, extend(shelf, e.append(nil)))[0].code; code != "HD" && code != "NS" {
			t.Skipf("this server says %q", code)
		}
	}
	asked := func() int64 {
		ctx := within(t, 10*time.Second)
		var stats map[string]string
		if err := s.pool.Do(ctx, func(c *conn) (err error) { stats, err = c.stats(ctx, ""); return err }); err != nil {
			t.Fatal(err)
		}
		return integer(stats["cmd_get"]) + integer(stats["cmd_set"])
	}
	before := asked()
	ctx := within(t, 2*time.Second)
	err := s.with(ctx, func(c *conn, known *memory) error { return s.announce(ctx, c, known, "k") })
	if err == nil || errors.Is(err, register.ErrForgot) {
		t.Errorf("announced with no room: %v", err)
	}
	if n := asked() - before; n > 20 {
		t.Errorf("it was asked %d times", n)
	}
	if got := read(t, s, "k"); got.Version != it.Version {
		t.Errorf("it stands at %v", got.Version)
	}
}

// So many have announced at once that the shelf is as long as an item may be, and nobody has squeezed it. The next one does.
func TestAShelfThatIsAsLongAsAnItemMayBeIsSqueezed(t *testing.T) {
	m := server(t)
	s := opened(t, m.Addr())
	announced(t, s, "k")
	shelf := s.shelfKey(knownBy(t, s), s.shelf("k"))
	for _, size := range []int{50_000, 1000, 1} {
		for code := "HD"; code == "HD"; {
			e := entry{key: strings.Repeat("k", size), nonce: register.NewVersion()}
			code = answers(t, s, extend(shelf, e.append(nil)))[0].code
		}
	}
	if err := s.with(within(t, 5*time.Second), func(c *conn, known *memory) error { return s.announce(within(t, 5*time.Second), c, known, "k") }); err != nil {
		t.Error(err)
	}
	if size, _ := shelfOf(t, s, "k"); size > s.shelfSize() {
		t.Errorf("the shelf has %d bytes", size)
	}
}
