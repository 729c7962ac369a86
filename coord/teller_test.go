package coord

import (
	"testing"
	"time"
)

// A hold that nobody observes costs nothing for those that somebody does.
func TestWhatNobodyIsToldTakesNoMemory(t *testing.T) {
	nobody := &teller{telling: &telling{}}
	me := func() Node { return Node{} }
	now := time.Now()
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		to := nobody.of(ctx)
		to.waiting(me, 1)
		to.woken(me)
		to.granted(now, me, time.Second)
		to.amended(now, me)
		to.released(now, me, time.Second)
		to.rest()
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
