//go:build unix

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// mono reads the machine's monotonic clock. All processes of a machine read the same one, so what they record can be
// put in one order; Go's own monotonic times count from the start of each process.
func mono() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
