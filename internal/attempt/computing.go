//go:build unix

package attempt

import (
	"syscall"
	"time"
)

// Computing returns for how long this process computes in f. However busy the machine is, that is about the same.
func Computing(f func()) time.Duration {
	before := computed()
	f()
	return computed() - before
}

func computed() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
