package quorum

import (
	"strconv"
	"testing"

	"github.com/turnwise/turnwise/coord/register"
)

// Whoever goes through many registers remembers no more than so many of them.
func TestWhatIsRememberedOfProposalsIsBounded(t *testing.T) {
	l := newLedger()
	for i := range maxKept + 100 {
		key := strconv.Itoa(i)
		l.put(key, promised{ballot: ballot{count: 1}})
		l.keepTurn(key, &acceptor{})
		l.leaveOpen(register.NewVersion())
		if _, kept := l.promises[key]; !kept {
			t.Fatalf("the promise of key %d is forgotten at once", i)
		}
	}
	if p, o, n := len(l.promises), len(l.open), len(l.turns); p != maxKept || o != maxKept || n != maxKept {
		t.Errorf("%d promises, %d open swaps, %d turns; want %d each", p, o, n, maxKept)
	}
	// A later promise of a key takes the place of the earlier one, and of no other.
	last := strconv.Itoa(maxKept + 99)
	l.put(last, promised{ballot: ballot{count: 2}})
	if n := len(l.promises); n != maxKept {
		t.Errorf("%d promises after a second one of one key", n)
	}
	if b, _, ok := l.take(last, ""); len(l.promises) != maxKept-1 || b.count != 2 || ok {
		t.Errorf("%d promises are left, and %v of the last, which is of no time: %v", len(l.promises), b, ok)
	}
}
