// Package semaphore shares a number of permits among all processes that share a service. A caller asks for one or more
// of them, and callers are served in the order in which they came: a caller that asks for many is not overtaken by
// later ones that ask for few.
//
// All recipes share one set of names: a mutex, a read/write lock, a semaphore and an election of the same name on the
// same service wait for each other. coord.Error tells the kind of the node that is in the way.
package semaphore

import (
	"context"
	"fmt"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// Semaphore is a name, a number of permits and a client. It holds no state and does no I/O until asked; make one
// wherever you need it.
//
// With n permits, up to eight, a waiter watches the nodes ahead of it, and a permit that is given back wakes at most n
// waiters. With more permits, each waiter waits for the one right ahead to enter. That costs two wake-ups, and a write
// for each that had to wait, whatever n is; but a process that is frozen just as its turn comes holds up those behind
// it until its session ends. The limit was measured: at eight permits both ways take the same time; at a hundred, the
// second takes half as long.
//
// The number of permits may change while a deployment rolls: the smallest that anyone in line states counts.
type Semaphore struct {
	client  *coord.Client
	name    string
	permits int64
	opts    []coord.AcquireOption
}

// Option sets up a Semaphore. A nil Option changes nothing.
type Option func(*Semaphore)

// MaxWait bounds how long Acquire waits. After that it returns an error that is both context.DeadlineExceeded and
// coord.ErrBusy, or coord.ErrUnavailable if the service could not be reached. With zero or less it takes the permits if
// they are free, and does not wait at all.
func MaxWait(d time.Duration) Option {
	return func(s *Semaphore) { s.opts = append(s.opts, coord.MaxWait(d)) }
}

// MaxHold bounds how long a hold lasts: then it ends by itself, with coord.ErrLost. Its context has that deadline. See coord.MaxHold.
func MaxHold(d time.Duration) Option {
	return func(s *Semaphore) { s.opts = append(s.opts, coord.MaxHold(d)) }
}

// Asking asks those ahead to let go of their permits, while the caller waits. They hear of it by coord.Hold.Wanted, and need not do it.
func Asking(why string) Option {
	return func(s *Semaphore) { s.opts = append(s.opts, coord.Asking(why)) }
}

// New returns the semaphore of that name, with that many permits: any number from one to math.MaxInt64.
func New(c *coord.Client, name string, permits int64, opts ...Option) *Semaphore {
	s := &Semaphore{client: c, name: name, permits: permits, opts: []coord.AcquireOption{coord.Anew()}}
	for _, o := range opts {
		if o != nil {
			o(s)
		}
	}
	return s
}

// Acquire waits in line for n permits, which one Release gives back together. ctx governs the wait, not the hold. On
// failure nothing stays behind. Asking for none, or for more than there are, returns coord.ErrInvalid.
//
// A caller that holds permits may acquire more; take care that several callers that do so do not wait for each other.
func (s *Semaphore) Acquire(ctx context.Context, n int64) (*coord.Hold, error) {
	if err := s.check("acquire", n); err != nil {
		return nil, err
	}
	kind := rules.Permits(n, s.permits)
	return s.client.Acquire(ctx, s.name, kind, nil, coord.RuleOf(kind), s.opts...)
}

// TryAcquire is Acquire if n permits are free and nobody waits, and returns coord.ErrBusy otherwise.
func (s *Semaphore) TryAcquire(ctx context.Context, n int64) (*coord.Hold, error) {
	if err := s.check("try", n); err != nil {
		return nil, err
	}
	kind := rules.Permits(n, s.permits)
	return s.client.TryAcquire(ctx, s.name, kind, nil, coord.RuleOf(kind), s.opts...)
}

// AcquireChan is Acquire for a select. If ctx ends, or the hold is lost, before the result has been received, the
// permits are given back and the channel delivers the error.
func (s *Semaphore) AcquireChan(ctx context.Context, n int64) <-chan coord.Result {
	return coord.Chan(ctx, func(ctx context.Context) (*coord.Hold, error) { return s.Acquire(ctx, n) })
}

// Do acquires n permits, runs fn and gives them back. fn's context ends with the hold or with ctx. See coord.Do for the
// error: it is coord.ErrLost, or joined with that, if the hold did not last until fn had returned.
func (s *Semaphore) Do(ctx context.Context, n int64, fn func(ctx context.Context, h *coord.Hold) error) error {
	return coord.Do(ctx, func(ctx context.Context) (*coord.Hold, error) { return s.Acquire(ctx, n) }, fn)
}

func (s *Semaphore) check(op string, n int64) error {
	if err := rules.CheckPermits(n, s.permits); err != nil {
		return &coord.Error{Op: op, Line: s.name, Err: fmt.Errorf("%w: %w", coord.ErrInvalid, err)}
	}
	return nil
}
