package multi

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord"
)

// Hold is a hold of several lines. It ends as soon as one of them ends; the others stay until Release.
type Hold struct {
	holds []*coord.Hold // in the order of the lines
	ctx   context.Context
}

func newHold(ctx context.Context, holds []*coord.Hold) *Hold {
	h := &Hold{holds: holds}
	h.ctx, _ = h.With(context.WithoutCancel(ctx)) // it ends with the holds
	return h
}

// Context ends when the first of the holds ends. It descends from each of them, as coord.Client.Held sees it.
func (h *Hold) Context() context.Context { return h.ctx }

// With returns a context that ends with ctx or with the first of the holds to end.
func (h *Hold) With(ctx context.Context) (context.Context, context.CancelFunc) {
	var cancels []context.CancelFunc
	for _, one := range h.holds {
		var cancel context.CancelFunc
		ctx, cancel = one.With(ctx)
		cancels = append(cancels, cancel)
	}
	return ctx, func() {
		for _, cancel := range slices.Backward(cancels) {
			cancel()
		}
	}
}

// Err returns nil as long as all lines are held, and then why one of them is not: coord.ErrLost before coord.ErrReleased.
func (h *Hold) Err() (end error) {
	for _, one := range h.holds {
		if err := one.Err(); err != nil && (end == nil || errors.Is(end, coord.ErrReleased)) {
			end = err
		}
	}
	return end
}

// Deadline returns the time until which all are surely held if nothing more is heard from the service. It is zero once one of
// them has ended.
func (h *Hold) Deadline() (first time.Time) {
	for i, one := range h.holds {
		switch d := one.Deadline(); {
		case d.IsZero():
			return d
		case i == 0 || d.Before(first):
			first = d
		}
	}
	return first
}

// Hold returns the hold of one line, for guards and fences, or nil if that line was not asked for.
func (h *Hold) Hold(name string) *coord.Hold {
	for _, one := range h.holds {
		if one.Node().Line == name {
			return one
		}
	}
	return nil
}

// Token returns the fencing token of one line, or zero if that line was not asked for.
func (h *Hold) Token(name string) coord.Token {
	if one := h.Hold(name); one != nil {
		return one.Token()
	}
	return 0
}

// Release releases all lines, side by side. It returns the error of coord.Hold.Release for the first line that was not held to
// the end. Releasing again changes nothing.
func (h *Hold) Release() error {
	errs := make([]error, len(h.holds))
	var all sync.WaitGroup
	for i, one := range h.holds {
		all.Go(func() { errs[i] = one.Release() })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
