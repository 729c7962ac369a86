package once

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// Missed says what becomes of slots that began while nobody waited for them: no process was there, or the job was still running.
// There is no default.
type Missed int

const (
	// SkipMissed: they are left out.
	SkipMissed Missed = iota + 1

	// RunLast: the last one that has begun is run, and those before it are left out.
	RunLast

	// RunAll: each of them is run, in order, and none is given up: a slot that fails holds up those after it, with AtLeastOnce for
	// as long as the job fails. How many these are is up to the schedule and to how long nobody was there.
	RunAll
)

// ErrAhead says that the slot that was noted last has not begun yet by the clock of this process, and none before it is run.
// Somebody's clock was ahead, or somebody gave the job a number that is no time. If so, Client.Forget has the job begin anew.
var ErrAhead = errors.New("a slot was noted that has not begun yet, and none is run before it")

// Event is what Run tells of a slot that it has run here, or could not run.
type Event struct {
	Slot    time.Time
	Skipped time.Time // of a slot that was run: when the first of those began that nobody has run before it; zero: there are none
	Ran     bool
	Err     error
}

// WithReport has Run call f for each slot that it runs in this process, and each time that it fails. Slots that other processes run
// are not reported.
func WithReport(f func(Event)) Option { return func(j *Job) { j.report = f } }

// Run runs fn in each slot of a schedule, in one process of all that call Run with the same name, and returns when ctx ends. The
// number of a slot, for Do and Last, is the Unix time in milliseconds at which it begins.
//
// Slots begin by the wall clock of the process that comes first. Whose clock is ahead by more than a slot lasts runs slots too
// early; nobody runs them twice, and the others are told ErrAhead. If a try fails it is repeated until the next slot begins, with
// RunAll for ever, but with AtMostOnce only if fn has not run. Run returns an error that no retry can mend, such as
// coord.ErrDenied or coord.ErrClosed.
//
// While the job runs in one process, the others wait in line for it. So the next slot waits as well, if the job takes longer than a
// slot lasts.
func (j *Job) Run(ctx context.Context, s Schedule, missed Missed, fn func(ctx context.Context, slot time.Time, h *coord.Hold) error) error {
	if s == nil {
		return j.invalid("the schedule is nil")
	}
	from, err := j.now().Round(0), ctx.Err() // the wall clock alone counts
	switch {
	case missed < SkipMissed || missed > RunAll:
		return j.invalid("say once.SkipMissed, once.RunLast or once.RunAll")
	case fn == nil:
		return j.invalid("the function is nil")
	case isTooShort(s):
		return j.invalid("a slot lasts a millisecond or more")
	case drifts(s, from):
		return j.invalid("the schedule counts from the moment at which it is asked, so each process has slots of its own: use once.Every")
	case missed != SkipMissed && err == nil:
		from, err = j.from(ctx, from)
	}
	for err == nil {
		at := s.Next(from)
		switch {
		case at.IsZero():
			<-ctx.Done()
			return ctx.Err()
		case !at.After(from):
			return j.invalid(fmt.Sprintf("the schedule says that the next slot after %v begins at %v", from, at))
		}
		if err = j.until(ctx, at); err != nil {
			break
		}
		if missed == RunLast {
			at = lastBegun(s, at, j.now())
		}
		var waited bool
		waited, err = j.insist(ctx, s, at, missed, fn)
		if from = at; missed == SkipMissed && !waited {
			from = later(from, j.now().Round(0))
		}
	}
	return err
}

// from returns after which moment the first slot is looked for, if missed slots are run.
func (j *Job) from(ctx context.Context, now time.Time) (time.Time, error) {
	for tries := 0; ; tries++ {
		last, err := j.Last(ctx)
		switch {
		case err == nil && (last.Token == 0 || last.Slot > slotOf(now)):
			return now, nil // nobody knows of a slot that was missed
		case err == nil && j.settles(last, last.Slot):
			return time.UnixMilli(last.Slot), nil
		case err == nil:
			return time.UnixMilli(last.Slot - 1), nil
		case coord.IsLasting(err):
			return now, err
		case ctx.Err() != nil:
			return now, ctx.Err()
		}
		j.tell(Event{Err: err})
		if err := driverkit.Sleep(ctx, pause(tries)); err != nil {
			return now, err
		}
	}
}

// insist runs one slot, unless somebody else does. Unless all are to be run it gives up when the next one begins; waited says that
// it was waiting when that began.
func (j *Job) insist(ctx context.Context, s Schedule, at time.Time, missed Missed, fn func(ctx context.Context, slot time.Time, h *coord.Hold) error) (waited bool, err error) {
	t := turn{Job: j, slot: slotOf(at)}
	var next time.Time // zero: it is not to be given up
	if missed != RunAll {
		next = s.Next(at)
	}
	for tries := 0; ; tries++ {
		e := Event{Slot: at}
		e.Err = t.take(ctx, func(ctx context.Context, h *coord.Hold) error {
			e.Skipped = firstBetween(s, t.last, at)
			return fn(ctx, at, h)
		})
		switch e.Ran = t.ran; {
		case e.Ran || e.Err != nil && ctx.Err() == nil:
			j.tell(e)
		case e.Err == nil && t.last.Slot > max(t.slot, slotOf(j.now())):
			e.Err = &coord.Error{Op: "once", Line: j.name, Err: fmt.Errorf("%w: %v", ErrAhead, time.UnixMilli(t.last.Slot))}
			j.tell(e)
			return false, nil
		}
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case e.Err == nil, e.Ran && j.policy == AtMostOnce:
			return false, nil
		case !e.Ran && coord.IsLasting(e.Err):
			return false, e.Err
		case !next.IsZero() && !next.After(j.now()):
			return false, nil
		}
		again := pause(tries)
		if waited = !next.IsZero() && !next.After(j.now().Add(again)); waited {
			return true, j.until(ctx, next)
		}
		if err := driverkit.Sleep(ctx, again); err != nil {
			return false, err
		}
	}
}

func (j *Job) tell(e Event) {
	if j.report != nil {
		j.report(e)
	}
}

// pause is how long to wait before another try: a second, and then twice as long each time, up to a minute.
func pause(tries int) time.Duration {
	return driverkit.Jitter(min(time.Second<<min(tries, 6), time.Minute))
}

// longestNap is how long Run sleeps without looking at the wall clock, which may be set.
const longestNap = 30 * time.Second

// until waits until the wall clock shows a time.
func (j *Job) until(ctx context.Context, at time.Time) error {
	for {
		left := at.Sub(j.now().Round(0))
		if left <= 0 {
			return ctx.Err()
		}
		if err := driverkit.Sleep(ctx, min(left, longestNap)); err != nil {
			return err
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
