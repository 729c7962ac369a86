package trace

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// clock is a clock that is never set. What is recorded by processes that share it can be put in one order, whatever
// happens to the wall clock.
type clock struct {
	id    string
	base  time.Time // the time at which
	ticks int64     // it showed this
}

// local is read when the program begins: later on, tests may run in a time of their own (testing/synctest).
var local = newClock()

func newClock() clock {
	if c, ok := machineClock(); ok {
		return c
	}
	return clock{id: fmt.Sprintf("%016x", rand.Uint64()), base: time.Now()}
}

func (c clock) at(t time.Time) int64 { return c.ticks + int64(t.Sub(c.base)) }

// blur is by how much two processes that share a clock may differ in what they take it to show.
const blur = 20 * time.Microsecond
