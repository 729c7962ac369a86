package storekit

import (
	"sync/atomic"
	"time"
)

// Run notices that a server was started anew, by what its answers show of that. A store that has one is a register.Reconnecting.
type Run struct{ last atomic.Pointer[run] }

type run struct {
	id    string
	began time.Duration
	since time.Time // it was seen first
}

// IsNamed takes in what the run is called that has answered.
func (r *Run) IsNamed(id string) {
	r.saw(&run{id: id}, func(last *run) bool { return last.id == id })
}

// Began takes in when the run began that has answered, by any clock. Two readings of one beginning differ by less than slack. A run that
// seems to have begun earlier is another one, too: a machine that starts may have a clock that is behind.
func (r *Run) Began(at, slack time.Duration) {
	r.saw(&run{began: at}, func(last *run) bool { return (at - last.began).Abs() < slack })
}

func (r *Run) saw(now *run, isLike func(last *run) bool) {
	for {
		last := r.last.Load()
		if last != nil && isLike(last) {
			return
		}
		now.since = time.Now()
		if r.last.CompareAndSwap(last, now) {
			return
		}
	}
}

// Since returns since when the run is known that has answered last; the zero time if none has.
func (r *Run) Since() time.Time {
	if last := r.last.Load(); last != nil {
		return last.since
	}
	return time.Time{}
}
