// Package mutex is a lock that one holder at a time can have, among all processes that share a service.
//
// All recipes share one set of names: a mutex, a read/write lock, a semaphore and an election of the same name on the
// same service wait for each other. coord.Error tells the kind of the node that is in the way.
package mutex

import (
	"context"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// Mutex is a name and a client. It holds no state and does no I/O until asked; make one wherever you need it.
type Mutex struct {
	client *coord.Client
	name   string
	opts   []coord.AcquireOption
}

// Option sets up a Mutex. A nil Option changes nothing.
type Option func(*Mutex)

// Reentrant lets a caller whose context descends from a hold of this mutex lock it again: it gets a nested hold, at
// once, with the same token. Without it such a call returns coord.ErrHeld.
func Reentrant() Option { return with(coord.Reentrant()) }

// MaxWait bounds how long Lock waits. After that it returns an error that is both context.DeadlineExceeded and
// coord.ErrBusy, or coord.ErrUnavailable if the service could not be reached. With zero or less it takes the mutex if
// nobody is in line, and does not wait at all.
func MaxWait(d time.Duration) Option { return with(coord.MaxWait(d)) }

// MaxHold bounds how long a hold lasts: then it ends by itself, with coord.ErrLost. Its context has that deadline. See coord.MaxHold.
func MaxHold(d time.Duration) Option { return with(coord.MaxHold(d)) }

// Asking asks those ahead to let go, while the caller waits. They hear of it by coord.Hold.Wanted, and need not do it.
func Asking(why string) Option { return with(coord.Asking(why)) }

// Together lets goroutines that share a client take turns in one place in line, without asking the service each time. The order
// among all processes is first come, first served to within that time. See coord.Together.
func Together(within time.Duration) Option { return with(coord.Together(within)) }

func with(o coord.AcquireOption) Option {
	return func(m *Mutex) { m.opts = append(m.opts, o) }
}

// New returns the mutex of that name.
func New(c *coord.Client, name string, opts ...Option) *Mutex {
	m := &Mutex{client: c, name: name}
	for _, o := range opts {
		if o != nil {
			o(m)
		}
	}
	return m
}

var rule = coord.RuleOf(rules.Lock)

// Lock waits in line for the mutex, first come, first served. ctx governs the wait, not the hold. On failure nothing
// stays behind.
func (m *Mutex) Lock(ctx context.Context) (*coord.Hold, error) {
	return m.client.Acquire(ctx, m.name, rules.Lock, nil, rule, m.opts...)
}

// TryLock locks the mutex if nobody is in line, and returns coord.ErrBusy otherwise.
func (m *Mutex) TryLock(ctx context.Context) (*coord.Hold, error) {
	return m.client.TryAcquire(ctx, m.name, rules.Lock, nil, rule, m.opts...)
}

// LockChan is Lock for a select. If ctx ends, or the hold is lost, before the result has been received, the mutex
// is released and the channel delivers the error.
func (m *Mutex) LockChan(ctx context.Context) <-chan coord.Result {
	return coord.Chan(ctx, m.Lock)
}

// Do locks, runs fn and releases. fn's context ends with the hold or with ctx. See coord.Do for the error: it is
// coord.ErrLost, or joined with that, if the hold did not last until fn had returned.
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, h *coord.Hold) error) error {
	return coord.Do(ctx, m.Lock, fn)
}

// Locker returns the mutex as a sync.Locker, for code that knows no other kind of lock. A sync.Locker cannot return
// errors, so Lock panics if the mutex cannot be had (because ctx ended, say), and Unlock panics if it was not held to
// the end.
func (m *Mutex) Locker(ctx context.Context) sync.Locker {
	return &locker{mutex: m, ctx: ctx}
}

type locker struct {
	mutex *Mutex
	ctx   context.Context

	mu   sync.Mutex
	hold *coord.Hold
}

func (l *locker) Lock() {
	h, err := l.mutex.Lock(l.ctx)
	if err != nil {
		panic(err)
	}
	l.mu.Lock()
	l.hold = h
	l.mu.Unlock()
}

func (l *locker) Unlock() {
	l.mu.Lock()
	h := l.hold
	l.hold = nil
	l.mu.Unlock()
	if h == nil {
		panic("turnwise: unlock of mutex " + l.mutex.name + ", which is not locked")
	}
	if err := h.Release(); err != nil {
		panic(err)
	}
}
