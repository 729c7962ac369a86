//go:build linux || darwin

package cli

import (
	"time"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/run"
)

// lease is until when a command may go on under a hold, from one renewal to the next.
type lease struct {
	hold  turn
	grace time.Duration // what the command asks for, to end

	longest  time.Duration // the longest time so far that the hold was sure to last
	deadline run.Moment    // until when the hold is sure, as last told to the child's keeper
}

// until returns until when the command may go on, and whether that has changed. A hold without a deadline has no limit.
//
// It never returns a time later than the true one, because it reads the clock before the deadline.
func (l *lease) until() (limit run.Limit, changed bool) {
	now := run.Now()
	left := time.Until(l.hold.Deadline())
	switch {
	case left <= 0 && l.deadline == 0: // it was lost before the command could be started
		return run.Limit{Term: now, Kill: now, Last: now}, true
	case left <= 0, left > endless:
		return run.Limit{}, false
	}
	l.longest = max(l.longest, left)
	deadline := now + run.Moment(left)
	if deadline-l.deadline <= run.Moment(time.Millisecond) {
		return run.Limit{}, false
	}
	l.deadline = deadline
	// The command must be dead a little before the deadline. But it is not asked to end before half of the time has passed
	// for which a hold is sure without news: otherwise a service that pauses for a moment would end it. A guardian that has
	// not killed it soon is stopped, perhaps, and the rest of the margin is for this process to do so.
	margin := min(l.longest/5, time.Second)
	grace := min(l.grace, max(l.longest/2-margin, 0))
	kill := deadline - run.Moment(margin)
	return run.Limit{Term: kill - run.Moment(grace), Kill: kill, Last: kill + run.Moment(margin/4)}, true
}

// lookAgain returns how soon to look whether the deadline has moved.
func (l *lease) lookAgain() time.Duration {
	if l.longest == 0 {
		return time.Second
	}
	return min(max(l.longest/40, 10*time.Millisecond), 500*time.Millisecond)
}

// covers reports whether the hold was surely there at a time.
func (l *lease) covers(at run.Moment) bool { return l.deadline != 0 && at <= l.deadline }
