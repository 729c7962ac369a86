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
