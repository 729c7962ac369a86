package register_test

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// An election's leader may publish a long value every second: the earlier ones must not stay in the store.
func TestLongDataThatIsReplacedIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		d, s := open(t, store)
		defer shut(t, d)
		kept := func() (n int) {
			t.Helper()
			synctest.Wait()
			if err := store.List(t.Context(), "data/", func(register.Item) bool { n++; return true }); err != nil {
				t.Fatal(err)
			}
			return n
		}
		long := func(b byte) []byte { return bytes.Repeat([]byte{b}, 1000) }
		p, _, err := s.Join(t.Context(), driver.Entry{Line: "line", Kind: rules.Lock, Data: long('0')})
		if err != nil {
			t.Fatal(err)
		}
		for i := range byte(5) {
			if err := p.Amend(t.Context(), rules.Lock, long('1'+i)); err != nil {
				t.Fatal(err)
			}
			if n := kept(); n != 1 {
				t.Errorf("after %d amendments there are %d data registers", i+1, n)
			}
		}
		if all, err := d.Line(t.Context(), "line"); err != nil || len(all) != 1 || !bytes.Equal(all[0].Data, long('5')) {
			t.Errorf("the line is %v, %v", all, err)
		}
		if err := p.Amend(t.Context(), rules.Lock, []byte("short")); err != nil {
			t.Fatal(err)
		}
		if n := kept(); n != 0 {
			t.Errorf("with short data there are %d data registers", n)
		}
		if err := p.Amend(t.Context(), rules.Lock, long('9')); err != nil {
			t.Fatal(err)
		}
		leave(t, p)
		if n := kept(); n != 0 {
			t.Errorf("after the node has left there are %d data registers", n)
		}
	})
}

// Whoever may write one line, and may read no other, has what stands there shown by all who look at it. In it he names data of a session
// that he has seen in his line, as if that belonged there.
func TestWhoWritesToOneLineIsShownNoDataOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		d, s := open(t, store)
		defer shut(t, d)
		seen := join(t, s, "his")
		secret := bytes.Repeat([]byte("secret "), 100)
		p, _, err := s.Join(t.Context(), driver.Entry{Line: "other", Kind: rules.Lock, Data: secret})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Amend(t.Context(), rules.Lock, append(secret, '2')); err != nil {
			t.Fatal(err)
		}
		it, err := store.Read(t.Context(), "line/his")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Swap(t.Context(), register.Swap{Key: it.Key, Old: it.Version, Next: register.NewVersion(), Value: register.WhoNamesDataOfOthers(seen.Node(), 4, 3)}); err != nil {
			t.Fatal(err)
		}
		all, err := d.Line(t.Context(), "his")
		if err != nil || len(all) != 12 {
			t.Fatalf("the line has %d nodes, %v", len(all), err)
		}
		for _, n := range all {
			if bytes.Contains(n.Data, []byte("secret")) {
				t.Errorf("what another line keeps to itself is shown in it: %d bytes", len(n.Data))
			}
		}
		if all, err := d.Line(t.Context(), "other"); err != nil || len(all) != 1 || len(all[0].Data) != len(secret)+1 {
			t.Errorf("who may look there sees %v, %v", all, err)
		}
	})
}
