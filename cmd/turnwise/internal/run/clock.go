//go:build linux || darwin

package run

import (
	"golang.org/x/sys/unix"
)

// Now is the present moment.
func Now() Moment {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // there is no machine without it
	}
	return Moment(t.Nano())
}
