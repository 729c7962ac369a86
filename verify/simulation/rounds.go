package simulation

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/barrier"
)

// meeting is how many come to the barrier of a line.
const meeting = 2

// round is one of a line's barrier.
type round struct {
	line   string
	number uint64
}

// meets comes to the line's barrier, and stays inside for a while, perhaps.
func (c *contender) meets(ctx context.Context) {
	limit := time.Now().Add(c.cfg.TTL + time.Duration(c.rand.Int64N(int64(3*c.cfg.TTL))))
	asking, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	b := barrier.New(c.client.Client, c.line, meeting)
	if c.rand.IntN(3) > 0 {
		number, err := b.Wait(asking)
		c.met(ctx, asking, limit, number, err)
		return
	}
	in, err := b.Enter(asking)
	if err != nil {
		c.met(ctx, asking, limit, 0, err)
		return
	}
	c.met(ctx, asking, limit, in.Round(), nil)
	c.pause(in.Context(), 50*time.Millisecond)
	if err := in.Leave(asking); asking.Err() == nil {
		c.mayEnd(err)
	}
}

// met judges how somebody has come back from a barrier: no round is gone on with by more than it takes.
func (c *contender) met(ctx, asking context.Context, limit time.Time, number uint64, err error) {
	switch {
	case err != nil && errors.Is(err, context.DeadlineExceeded) && asking.Err() != nil:
		c.inTime(c.name, "wait", limit.Add(c.client.driver.RequestTimeout())) // it may have had to leave
	case err != nil && errors.Is(err, coord.ErrInvalid) && strings.Contains(err.Error(), "an operator was here"): // he wrote over what one says
	case err != nil && ctx.Err() == nil:
		c.mayEnd(err)
	case err == nil:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.grants++
		r := round{c.line, number}
		if c.rounds[r]++; c.rounds[r] > meeting && !c.restored {
			c.report("%s: %d went on in round %d of %s", c.name, c.rounds[r], number, c.line)
		}
	}
}
