package storekit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

// Found is one stretch of time in which a server has forgotten nothing, as a store has found it.
type Found interface {
	comparable
	ID() string         // as register.Memory has it
	For() time.Duration // likewise
}

// Known is the memory that a store goes by: from Recall to Forget. Make it with NewKnown.
type Known[M Found] struct {
	memory  atomic.Pointer[M]
	looking Looking // for whoever uses what follows
	last    *M
	since   time.Time // when another memory was noticed; zero: never
}

// Looking lets one caller look at a time. Make it with NewLooking.
type Looking chan struct{}

// NewLooking returns a Looking that nobody is at.
func NewLooking() Looking { return make(Looking, 1) }

// Begin waits until nobody else looks, or until ctx ends. Call done afterwards.
func (l Looking) Begin(ctx context.Context) (done func(), err error) {
	select {
	case l <- struct{}{}:
		return func() { <-l }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// NewKnown returns a Known that knows of no memory yet.
func NewKnown[M Found]() *Known[M] { return &Known[M]{looking: NewLooking()} }

// Current returns the memory that the store goes by, or register.ErrForgot if there is none.
func (k *Known[M]) Current() (m M, err error) {
	if p := k.memory.Load(); p != nil {
		return *p, nil
	}
	return m, register.ErrForgot
}

// Forget is called when the server turns out to have another memory than m. From then on there is none, until Recall has
// succeeded. It reports whether that is news.
func (k *Known[M]) Forget(m M) bool {
	p := k.memory.Load()
	return p != nil && *p == m && k.memory.CompareAndSwap(p, nil)
}

// Recall has look find out which memory the server has, and goes by that from now on. look gets what it found the last time, or
// the zero M. As long as the ID is the same, the store goes on with that one, so look writes into it what it has learned. One look
// runs at a time.
//
// Once a look has found another memory than the one before, others may not have noticed yet. So from then on the memory counts as
// no older than the time since.
func (k *Known[M]) Recall(ctx context.Context, look func(last M) (M, error)) (register.Memory, error) {
	done, err := k.looking.Begin(ctx)
	if err != nil {
		return register.Memory{}, err
	}
	defer done()
	var last M
	if k.last != nil {
		last = *k.last
	}
	found, err := look(last)
	if err != nil {
		return register.Memory{}, err
	}
	if k.last == nil || found.ID() != last.ID() {
		if k.last != nil {
			k.since = time.Now()
		}
		k.last = &found
	}
	k.memory.Store(k.last)
	mem := register.Memory{ID: found.ID(), For: found.For()}
	if !k.since.IsZero() {
		mem.For = min(mem.For, time.Since(k.since))
	}
	return mem, nil
}
