package trace

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// clock is one that never is set. If processes share it, what they record can be put in one order, whatever happens to the
// clock on the wall.
type clock struct {
	id    string
	base  time.Time // what it showed when
	ticks int64     // it had come to this
}

// local is read when the program begins, and not later: tests may have a time of their own by then (testing/synctest).
var local = newClock()

func newClock() clock {
	if c, ok := machineClock(); ok {
		return c
	}
	return clock{id: fmt.Sprintf("%016x", rand.Uint64()), base: time.Now()}
}

func (c clock) at(t time.Time) int64 { return c.ticks + int64(t.Sub(c.base)) }

// blur is how far two processes that share a clock may be apart in what they take it to show.
const blur = 20 * time.Microsecond
