//go:build !unix

package attempt

import "time"

// Computing returns how long f takes.
func Computing(f func()) time.Duration {
	begun := time.Now()
	f()
	return time.Since(begun)
}
