package storekit

import (
	"errors"
	"sync/atomic"
	"time"
)

// ErrRestarted is told to whoever is first to find that the server was started anew.
var ErrRestarted = errors.New("the server was started anew, perhaps with an older disk")

// Run notices that a server was started anew. It may have an older disk, which shows to nobody but those who have written more: so
// somebody has to be told that a request failed. Then the driver lets nobody enter before his session is known to be what it was.
type Run struct{ known atomic.Pointer[run] }

type run struct {
	began time.Duration
	news  time.Time // until when it is told that this is another one than before
}

// newsFor is for how long: until the first who was told has told the driver.
const newsFor = 100 * time.Millisecond

// Begin takes in when the run began that the store finds first.
func (r *Run) Begin(began time.Duration) { r.known.Store(&run{began: began}) }

// Check returns ErrRestarted if the run is another one than before, for the first who ask. began is when it began, by any clock. Two
// readings of one beginning differ by less than slack. A run that seems to have begun earlier is another one, too: a machine that starts
// may have a clock that is behind.
func (r *Run) Check(began, slack time.Duration) error {
	for {
		before := r.known.Load()
		switch {
		case before == nil:
			r.known.CompareAndSwap(nil, &run{began: began})
			continue
		case (began - before.began).Abs() >= slack:
			if !r.known.CompareAndSwap(before, &run{began, time.Now().Add(newsFor)}) {
				continue
			}
			return ErrRestarted
		case time.Now().Before(before.news):
			return ErrRestarted
		}
		return nil
	}
}
