package drivertest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/once"
)

var onceInASlot = []scenario{
	{name: "one of many runs a slot", run: slotsAmongMany},
	{name: "a slot whose process dies is not run again, if at most once", run: func(s *scene) { slotDies(s, once.AtMostOnce) }},
	{name: "a slot whose process dies is run again, if at least once", run: func(s *scene) { slotDies(s, once.AtLeastOnce) }},
}

func slotsAmongMany(s *scene) {
	cs := s.clients(3)
	var runs [5]atomic.Int64
	var all sync.WaitGroup
	for i := range 9 {
		j := once.New(cs[i%3], s.line, once.AtMostOnce)
		all.Go(func() {
			for slot := range int64(len(runs)) {
				err := context.DeadlineExceeded // of one request, on a busy machine: then it is asked again
				for errors.Is(err, context.DeadlineExceeded) && s.ctx.Err() == nil {
					_, err = j.Do(s.ctx, slot, func(context.Context, *coord.Hold) error {
						runs[slot].Add(1)
						return nil
					})
				}
				if err != nil {
					s.Errorf("slot %d: %v", slot, err)
				}
			}
		})
	}
	all.Wait()
	for slot := range runs {
		if n := runs[slot].Load(); n > 1 || n == 0 && slot == len(runs)-1 {
			s.Errorf("slot %d was run %d times", slot, n)
		}
	}
	s.forgotten(cs[0])
}

func slotDies(s *scene, policy once.Policy) {
	c, l, w := s.watchedClient()
	s.needs("expire a session", l.Expire == nil)
	_, err := once.New(c, s.line, policy).Do(s.ctx, 7, func(ctx context.Context, _ *coord.Hold) error {
		l.Expire(s, w.last())
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, coord.ErrLost) {
		s.Errorf("whose process died: %v, want ErrLost", err)
	}
	cs := s.clients(1)
	j := once.New(cs[0], s.line, policy)
	for _, slot := range []struct {
		n    int64
		runs bool
	}{{6, policy == once.AtLeastOnce}, {7, policy == once.AtLeastOnce}, {7, false}, {8, true}, {8, false}} {
		ran, err := j.Do(s.ctx, slot.n, func(context.Context, *coord.Hold) error { return nil })
		if err != nil || ran != slot.runs {
			s.Errorf("slot %d runs: %v (error %v), want %v", slot.n, ran, err, slot.runs)
		}
	}
	s.forgotten(cs[0])
}

// forgotten takes the memo away, after which nothing is left of the line.
func (s *scene) forgotten(c *coord.Client) {
	s.Helper()
	if err := c.Forget(s.ctx, s.line); err != nil {
		s.Errorf("Forget: %v", err)
	}
	s.gone(s.line)
}
