//go:build linux || darwin

package run

import (
	"golang.org/x/sys/unix"
)

// Now returns the present moment.
func Now() Moment {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every machine has this clock
	}
	return Moment(t.Nano())
}
