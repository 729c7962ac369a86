package driverkit

import (
	"sync/atomic"
	"time"
)

// Deadline is the time until which a session is surely kept if nothing more is heard from the service; see
// driver.Session.
type Deadline struct {
	base  time.Time // for its monotonic clock
	until Max       // ns after base
}

// NewDeadline returns a deadline that has already passed: nothing has been heard yet.
func NewDeadline() *Deadline { return &Deadline{base: time.Now()} }

// Renewed records that a renewal sent at that time was answered, and for how long after that time the service surely
// keeps the session. A late answer never moves the deadline back.
func (d *Deadline) Renewed(sent time.Time, kept time.Duration) {
	d.until.Saw(int64(sent.Sub(d.base) + kept))
}

// Time returns the deadline, with a monotonic clock reading.
func (d *Deadline) Time() time.Time { return d.base.Add(time.Duration(d.until.Load())) }

// Passed reports whether the deadline has passed.
func (d *Deadline) Passed() bool { return !time.Now().Before(d.Time()) }

// Max is the greatest number seen so far: a revision, a transaction. Its zero value has seen none.
type Max struct{ seen atomic.Int64 }

// Saw raises the maximum if n is above it. It never lowers it: replies may overtake each other.
func (m *Max) Saw(n int64) {
	for {
		seen := m.seen.Load()
		if n <= seen || m.seen.CompareAndSwap(seen, n) {
			return
		}
	}
}

// Load returns the maximum.
func (m *Max) Load() int64 { return m.seen.Load() }
