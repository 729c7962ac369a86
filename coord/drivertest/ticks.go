package drivertest

import "time"

// tick is the unit in which a wait counts time. A process that a busy machine holds up for a second misses a hundred ticks
// and counts one: whatever it waits for had no more time than that either.
const tick = 10 * time.Millisecond

// arrives returns what comes through c within d, as counted in ticks.
func arrives[T any](d time.Duration, c <-chan T) (v T, ok bool) {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for ; d > 0; d -= tick {
		select {
		case v = <-c:
			return v, true
		case <-ticks.C:
		}
	}
	select {
	case v = <-c:
		return v, true
	default:
		return v, false
	}
}

// took returns how long a call took, minus the time for which this process was held up.
func took(call func()) time.Duration {
	done := make(chan struct{})
	start := time.Now()
	var took time.Duration
	go func() {
		defer close(done)
		call()
		took = time.Since(start)
	}()
	var heldUp time.Duration
	for {
		before := time.Now()
		if _, over := arrives(tick, done); over {
			<-done
			return took - heldUp
		}
		heldUp += max(0, time.Since(before)-2*tick)
	}
}
