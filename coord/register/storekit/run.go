package storekit

import (
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

// Run notices that a server was started anew. It may have an older disk, which shows to nobody but those who have written more: so
// somebody has to be told that a request failed. Then the driver lets nobody enter before his session is known to be what it was.
type Run struct{ known atomic.Pointer[run] }

type run struct {
	began time.Duration
	news  News // that this is another one than before
}

// News is told to whoever asks first, and for a moment to all: until the first who was told has told the driver.
type News struct{ until atomic.Pointer[time.Time] } // zero: nobody was told yet

// newsFor is for how long.
const newsFor = 100 * time.Millisecond

// Happened says that there is something to tell.
func (n *News) Happened() { n.until.Store(new(time.Time)) }

// Tells reports whether it is told to the one who asks.
func (n *News) Tells() bool {
	until := n.until.Load()
	if until != nil && until.IsZero() {
		end := time.Now().Add(newsFor)
		n.until.CompareAndSwap(until, &end)
		return true
	}
	return until != nil && time.Now().Before(*until)
}

// Begin takes in when the run began that the store finds first.
func (r *Run) Begin(began time.Duration) { r.known.Store(&run{began: began}) }

// Check returns register.ErrRestarted if the run is another one than before, for the first who ask. began is when it began, by any clock. Two
// readings of one beginning differ by less than slack. A run that seems to have begun earlier is another one, too: a machine that starts
// may have a clock that is behind.
func (r *Run) Check(began, slack time.Duration) error {
	before := r.known.Load()
	if before == nil || (began-before.began).Abs() >= slack {
		now := &run{began: began}
		if before != nil {
			now.news.Happened()
		}
		if !r.known.CompareAndSwap(before, now) {
			return r.Check(began, slack)
		}
		before = now
	}
	if before.news.Tells() {
		return register.ErrRestarted
	}
	return nil
}
