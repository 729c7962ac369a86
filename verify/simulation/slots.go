package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/once"
)

// slots are what the simulation itself knows of a line's job.
type slots struct {
	begun   int64          // the greatest that was begun
	settled int64          // the greatest that is known to be settled
	runs    map[int64]bool // those that were begun
}

// slotted is how long a slot lasts.
const slotted = 150 * time.Millisecond

// policy is that of all jobs of a run.
func (w *world) policy() once.Policy {
	if w.cfg.Seed/2%2 == 0 {
		return once.AtMostOnce
	}
	return once.AtLeastOnce
}

// runsSlots runs the present slot of the line's job, or one just before it, or waits for those that come for a while.
func (c *contender) runsSlots(ctx context.Context) {
	report := once.WithReport(func(e once.Event) {
		if e.Err == nil {
			c.done(e.Slot.UnixMilli())
		}
	})
	job := once.New(c.client.Client, c.line, c.policy(), report)
	if c.rand.IntN(2) == 0 {
		asking, cancel := context.WithTimeout(ctx, time.Duration(c.rand.Int64N(int64(10*slotted))))
		defer cancel()
		missed := once.SkipMissed + once.Missed(c.rand.IntN(3))
		err := job.Run(asking, once.Every(slotted), missed, func(ctx context.Context, slot time.Time, h *coord.Hold) error {
			return c.runsSlot(slot.UnixMilli(), h)
		})
		if asking.Err() == nil {
			c.mayEnd(err)
		}
		return
	}
	slot := once.Every(slotted).Next(time.Now().Add(-slotted)).Add(-slotted * time.Duration(c.rand.IntN(3)/2)).UnixMilli()
	asking, cancel, limit := c.asking(ctx)
	defer cancel()
	ran, err := job.Do(asking, slot, func(ctx context.Context, h *coord.Hold) error { return c.runsSlot(slot, h) })
	switch {
	case err == nil && (ran || c.policy() == once.AtLeastOnce):
		c.done(slot)
	case !ran && !limit.IsZero() && asking.Err() != nil:
		c.inTime(c.name, "once", limit.Add(c.client.driver.RequestTimeout())) // it may have had to release
	case ctx.Err() == nil:
		c.mayEnd(err)
	}
}

var errBroken = errors.New("the job is broken")

// runsSlot is the job.
func (c *contender) runsSlot(slot int64, h *coord.Hold) error {
	mine := c.granted(c.name, c.line, h)
	defer c.released(mine)
	c.begins(slot, mine)
	c.pause(h.Context(), []time.Duration{slotted / 2, 3 * slotted}[c.rand.IntN(8)/7])
	if c.rand.IntN(12) == 0 {
		c.pause(h.Context(), 2*c.cfg.TTL)
	}
	if c.rand.IntN(6) == 0 {
		return errBroken
	}
	return nil
}

// begins judges whether a slot may begin. Whoever notes that it begins is refused by the service once its node has gone. If an
// operator removes the node after that, and before the answer has come, a later slot may be run before this one. With AtLeastOnce
// nobody asks, so whoever has not heard of its end may begin beside its successor.
func (c *contender) begins(slot int64, mine *claim) {
	stands := c.standing()[mine.place()]
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slotsOf(c.line)
	most := c.policy() == once.AtMostOnce
	switch {
	case c.restored || !most && !stands:
	case most && s.runs[slot]:
		c.report("%s: slot %d of %s is run a second time", c.name, slot, c.line)
	case most && !mine.excused.IsZero():
	case most && slot < s.begun, slot <= s.settled:
		c.report("%s: slot %d of %s is run, though %d began, and %d is settled", c.name, slot, c.line, s.begun, s.settled)
	}
	s.runs[slot] = true
	s.begun = max(s.begun, slot)
}

// done is called when somebody has heard that nobody runs the slot any more.
func (c *contender) done(slot int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slotsOf(c.line)
	s.settled = max(s.settled, slot)
}

// slotsOf is called with mu held.
func (w *world) slotsOf(line string) *slots {
	if w.slots[line] == nil {
		w.slots[line] = &slots{runs: make(map[int64]bool)}
	}
	return w.slots[line]
}

// mayEnd reports an error of a job that nothing explains.
func (c *contender) mayEnd(err error) {
	for _, may := range []error{nil, errBroken, coord.ErrClosed, coord.ErrRemoved, coord.ErrLost, coord.ErrUnsettled, coord.ErrUnavailable} {
		if errors.Is(err, may) {
			return
		}
	}
	if (errors.Is(err, coord.ErrDenied) || errors.Is(err, coord.ErrInvalid)) && c.lacksRights() { // of a node that may not be read
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report("%s: once failed with %v", c.name, err)
}
