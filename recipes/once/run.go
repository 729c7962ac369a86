package once

import (
	"context"
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

	// RunAll: each of them is run, in order. How many these are is up to the schedule and to how long nobody was there.
	RunAll
)

// Event is what Run tells of a slot that it has run here, or could not run.
type Event struct {
	Slot    time.Time
	Skipped time.Time // when the first of the slots began that were left out before this one; zero: there are none
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
// early; nobody runs them twice. If a try fails it is repeated until the next slot begins, with AtMostOnce only until the slot
// was noted. Run returns an error that no retry can mend, such as coord.ErrDenied or coord.ErrClosed.
//
// While the job runs in one process, the others wait in line for it. So the next slot waits as well, if the job takes longer than a
// slot lasts.
func (j *Job) Run(ctx context.Context, s Schedule, missed Missed, fn func(ctx context.Context, slot time.Time, h *coord.Hold) error) error {
	switch {
	case s == nil:
		return j.invalid("the schedule is nil")
	case missed < SkipMissed || missed > RunAll:
		return j.invalid("say once.SkipMissed, once.RunLast or once.RunAll")
	case fn == nil:
		return j.invalid("the function is nil")
	}
	from, err := j.from(ctx, missed)
	for err == nil {
		at := s.Next(from)
		switch {
		case at.IsZero():
			<-ctx.Done()
			return ctx.Err()
		case !at.After(from):
			return j.invalid(fmt.Sprintf("the schedule says that the next slot after %v begins at %v", from, at))
		}
		if err = until(ctx, at); err != nil {
			break
		}
		e := Event{Slot: at}
		if missed == RunLast {
			if e.Slot = lastBegun(s, at, time.Now()); e.Slot.After(at) {
				e.Skipped = at
			}
		}
		var waited bool
		waited, err = j.insist(ctx, s, e, fn)
		if from = e.Slot; missed == SkipMissed && !waited {
			from = later(from, time.Now().Round(0))
		}
	}
	return err
}

// from returns after which moment the first slot is looked for.
func (j *Job) from(ctx context.Context, missed Missed) (time.Time, error) {
	now := time.Now().Round(0) // the wall clock alone counts
	if missed == SkipMissed {
		return now, nil
	}
	for tries := 0; ; tries++ {
		last, err := j.Last(ctx)
		switch {
		case err == nil && last.Token == 0:
			return now, nil // nobody knows of a slot that was missed
		case err == nil && j.settles(last, last.Slot):
			return time.UnixMilli(last.Slot), nil
		case err == nil:
			return time.UnixMilli(last.Slot - 1), nil
		case coord.IsLasting(err):
			return now, err
		}
		j.tell(Event{Err: err})
		if err := driverkit.Sleep(ctx, pause(tries)); err != nil {
			return now, err
		}
	}
}

// insist runs one slot, unless somebody else does. It gives up when the next one begins; waited says that it was waiting when
// that began.
func (j *Job) insist(ctx context.Context, s Schedule, e Event, fn func(ctx context.Context, slot time.Time, h *coord.Hold) error) (waited bool, err error) {
	next := s.Next(e.Slot)
	for tries := 0; ; tries++ {
		e.Ran, e.Err = j.Do(ctx, slotOf(e.Slot), func(ctx context.Context, h *coord.Hold) error { return fn(ctx, e.Slot, h) })
		if e.Ran || e.Err != nil && ctx.Err() == nil {
			j.tell(e)
		}
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case e.Err == nil:
			return false, nil
		case !e.Ran && coord.IsLasting(e.Err):
			return false, e.Err
		case !next.IsZero() && !next.After(time.Now()):
			return false, nil
		}
		again := time.Now().Add(pause(tries))
		if waited = !next.IsZero() && !next.After(again); waited {
			return true, until(ctx, next)
		}
		if err := until(ctx, again.Round(0)); err != nil {
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
func until(ctx context.Context, at time.Time) error {
	for {
		left := at.Sub(time.Now().Round(0))
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
