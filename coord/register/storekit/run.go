package storekit

import (
	"errors"
	"sync/atomic"
	"time"
)

// errRestarted is told to whoever is first to find that the server was started anew.
var errRestarted = errors.New("the server was started anew, perhaps with an older disk")

// Run notices that a server was started anew. It may have an older disk, which shows to nobody but those who have written more: so
// somebody has to be told that a request failed. Then the driver lets nobody enter before his session is known to be what it was.
type Run struct{ began atomic.Int64 }

// Check takes in when the server's run began, by any clock, and returns an error if it is another one than before. The first call
// only takes it in. Two readings of one beginning differ by less than slack. A run that seems to have begun earlier is another one, too: a
// machine that starts may have a clock that is behind.
func (r *Run) Check(began, slack time.Duration) error {
	began = max(began, 1)
	for {
		before := time.Duration(r.began.Load())
		if before != 0 && (began-before).Abs() < slack {
			return nil
		}
		if r.began.CompareAndSwap(int64(before), int64(began)) {
			if before == 0 {
				return nil
			}
			return errRestarted
		}
	}
}
