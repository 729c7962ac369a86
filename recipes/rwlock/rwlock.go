// Package rwlock is a lock that either one writer or any number of readers can have, among all processes that share a
// service. They are served in the order in which they came: a writer waits for the readers ahead of it, and those that
// come later wait for the writer, so neither side can starve the other.
//
// All recipes share one set of names: a mutex, a read/write lock, a semaphore and an election of the same name on the
// same service wait for each other. coord.Error tells the kind of the node that is in the way.
package rwlock

import (
	"context"
	"fmt"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// RWLock is a name and a client. It holds no state and does no I/O until asked; make one wherever you need it.
type RWLock struct {
	client *coord.Client
	name   string
	opts   []coord.AcquireOption // of those who write
	reads  []coord.AcquireOption
}

// Option sets up an RWLock. A nil Option changes nothing.
type Option func(*RWLock)

// Reentrant lets a caller whose context descends from a hold of this lock lock it again: it gets a nested hold, at
// once, with the same token. Without it such a call returns coord.ErrHeld. A read hold never becomes a write hold:
// asking for that always returns coord.ErrUpgrade.
func Reentrant() Option { return with(coord.Reentrant()) }

// MaxWait bounds how long Lock and RLock wait. After that they return an error that is both context.DeadlineExceeded
// and coord.ErrBusy, or coord.ErrUnavailable if the service could not be reached. With zero or less they take the lock
// if nobody is in the way, and do not wait at all.
func MaxWait(d time.Duration) Option { return with(coord.MaxWait(d)) }

// MaxHold bounds how long a hold lasts: then it ends by itself, with coord.ErrLost. Its context has that deadline. See coord.MaxHold.
func MaxHold(d time.Duration) Option { return with(coord.MaxHold(d)) }

// Asking asks those ahead to let go, while the caller waits. They hear of it by coord.Hold.Wanted, and need not do it.
func Asking(why string) Option { return with(coord.Asking(why)) }

// Together lets goroutines that share a client, and all read, share one place in line, without asking the service each time. The
// order among all processes is first come, first served to within that time. See coord.Together. Whoever writes stands alone.
func Together(within time.Duration) Option {
	return func(l *RWLock) { l.reads = append(l.reads, coord.Together(within)) }
}

func with(o coord.AcquireOption) Option {
	return func(l *RWLock) { l.opts, l.reads = append(l.opts, o), append(l.reads, o) }
}

// New returns the lock of that name.
func New(c *coord.Client, name string, opts ...Option) *RWLock {
	l := &RWLock{client: c, name: name}
	for _, o := range opts {
		if o != nil {
			o(l)
		}
	}
	return l
}

var (
	write = coord.RuleOf(rules.Writer)
	read  = coord.RuleOf(rules.Reader)
)

// Lock waits in line until nobody else reads or writes. ctx governs the wait, not the hold. On failure nothing
// stays behind.
func (l *RWLock) Lock(ctx context.Context) (*coord.Hold, error) {
	return l.client.Acquire(ctx, l.name, rules.Writer, nil, write, l.opts...)
}

// RLock waits in line until no writer is ahead. ctx governs the wait, not the hold. On failure nothing stays behind.
func (l *RWLock) RLock(ctx context.Context) (*coord.Hold, error) {
	return l.client.Acquire(ctx, l.name, rules.Reader, nil, read, l.reads...)
}

// TryLock is Lock if nobody is in line, and returns coord.ErrBusy otherwise.
func (l *RWLock) TryLock(ctx context.Context) (*coord.Hold, error) {
	return l.client.TryAcquire(ctx, l.name, rules.Writer, nil, write, l.opts...)
}

// TryRLock is RLock if no writer is in line, and returns coord.ErrBusy otherwise.
func (l *RWLock) TryRLock(ctx context.Context) (*coord.Hold, error) {
	return l.client.TryAcquire(ctx, l.name, rules.Reader, nil, read, l.reads...)
}

// Downgrade turns a write hold into a read hold, in place: it is the same hold with the same token, nobody writes in
// between, and readers that wait right behind it are let in. Write holds nested in it end with coord.ErrLost.
//
// Before it, wait for the answers to all writes: one that arrives later is taken beside the readers, under a guard as well, since the
// hold goes on. It is a read hold from the moment that the service is asked. If no answer comes, Downgrade returns
// coord.ErrUnsettled, and the hold stays a read hold, since a reader may be in. The waiters may not know yet: call
// Downgrade again to make sure, or release. After any other error the hold is as it was, unless it is lost.
func (l *RWLock) Downgrade(ctx context.Context, h *coord.Hold) error {
	if h == nil {
		return l.invalid("the hold is nil")
	}
	if err := h.Err(); err != nil {
		return &coord.Error{Op: "downgrade", Line: l.name, Err: err}
	}
	if l.client.Held(h.Context(), l.name) != h {
		return l.invalid("the hold is of another line or client")
	}
	if kind := h.Node().Kind; kind != rules.Writer && !(kind == rules.Reader && h.Unsettled()) {
		return l.invalid("the hold is no write hold but of kind " + kind)
	}
	return h.Amend(ctx, rules.Reader, nil)
}

func (l *RWLock) invalid(why string) error {
	return &coord.Error{Op: "downgrade", Line: l.name, Err: fmt.Errorf("%w: %s", coord.ErrInvalid, why)}
}

// LockChan is Lock for a select. If ctx ends, or the hold is lost, before the result has been received, the lock is
// released and the channel delivers the error.
func (l *RWLock) LockChan(ctx context.Context) <-chan coord.Result {
	return coord.Chan(ctx, l.Lock)
}

// RLockChan is RLock for a select, as LockChan is Lock.
func (l *RWLock) RLockChan(ctx context.Context) <-chan coord.Result {
	return coord.Chan(ctx, l.RLock)
}

// Do locks for writing, runs fn and releases. fn's context ends with the hold or with ctx. See coord.Do for the error: it is
// coord.ErrLost, or joined with that, if the hold did not last until fn had returned.
func (l *RWLock) Do(ctx context.Context, fn func(ctx context.Context, h *coord.Hold) error) error {
	return coord.Do(ctx, l.Lock, fn)
}

// RDo is Do for reading.
func (l *RWLock) RDo(ctx context.Context, fn func(ctx context.Context, h *coord.Hold) error) error {
	return coord.Do(ctx, l.RLock, fn)
}
