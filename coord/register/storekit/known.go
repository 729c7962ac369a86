package storekit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

// A Memory is one stretch of time in which a server has forgotten nothing, as a store has found it.
type Memory interface {
	comparable
	ID() string         // as register.Memory has it
	For() time.Duration // likewise
}

// Known is the memory that a store goes by: from Recall to Forget. Make it with NewKnown.
type Known[M Memory] struct {
	memory atomic.Pointer[M]
	turn   chan struct{} // held by whoever uses what follows
	last   *M
	since  time.Time // when another memory was noticed; zero: never
}

// NewKnown returns a Known that knows of no memory yet.
func NewKnown[M Memory]() *Known[M] { return &Known[M]{turn: make(chan struct{}, 1)} }

// Memory returns the memory that the store goes by, or register.ErrForgot if there is none.
func (k *Known[M]) Memory() (m M, err error) {
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

// Recall has look find out which memory the server has, and goes by that from now on. look gets what Recall found last, or
// the zero M. If the ID is still the same, that one is kept, and look has to put into it what is new. One look runs at a
// time.
//
// If it is another memory, some have not noticed yet, so it counts as having begun just now at the earliest.
func (k *Known[M]) Recall(ctx context.Context, look func(last M) (M, error)) (register.Memory, error) {
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return register.Memory{}, ctx.Err()
	}
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
