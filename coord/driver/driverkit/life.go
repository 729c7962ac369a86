package driverkit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Life is how long a session lasts: from NewLife to the first End. Whatever runs for the session runs on its life.
type Life struct {
	ctx  context.Context
	kill context.CancelCauseFunc
	idle chan func()  // to the goroutines that have nothing to do
	rest atomic.Int32 // how many of those there are

	mu        sync.Mutex
	over      bool
	work      sync.WaitGroup
	errands   int           // under way
	noErrands chan struct{} // closed when there are none any more; nil: nobody waits for that
}

// A few goroutines that have nothing to do stay for a while: a stack that has grown for one request is large enough for
// the next.
const (
	maxIdle   = 4
	lingerFor = time.Second
)

// NewLife begins a life. Its context has the values of base, and also ends when base does.
func NewLife(base context.Context) *Life {
	l := &Life{idle: make(chan func())}
	l.ctx, l.kill = context.WithCancelCause(base)
	return l
}

// Context returns a context that ends with the life.
func (l *Life) Context() context.Context { return l.ctx }

// Done returns a channel that is closed when the life is over.
func (l *Life) Done() <-chan struct{} { return l.ctx.Done() }

// Over reports whether the life is over.
func (l *Life) Over() bool { return l.ctx.Err() != nil }

// Why returns nil while the life lasts, and then an error that is both driver.ErrSessionEnded and the reason given to
// End.
func (l *Life) Why() error {
	if l.ctx.Err() == nil {
		return nil
	}
	return &ended{context.Cause(l.ctx)}
}

// ended says why a session is over.
type ended struct{ why error }

func (e *ended) Error() string   { return driver.ErrSessionEnded.Error() + ": " + e.why.Error() }
func (e *ended) Unwrap() []error { return []error{driver.ErrSessionEnded, e.why} }

// End ends the life. It reports whether it was the first to do so: the first reason counts.
func (l *Life) End(why error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.over = true
	l.kill(why)
	return true
}

// Go runs f on a goroutine that Rest waits for. When the life is over it does nothing and returns false.
func (l *Life) Go(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.ctx.Err() != nil {
		return false
	}
	select {
	case l.idle <- f:
	default:
		l.work.Go(func() {
			for f != nil {
				f()
				f = l.next()
			}
		})
	}
	return true
}

// Errand is Go for work that AwaitErrands waits for: a node is being taken away, or may have to be.
func (l *Life) Errand(f func()) bool {
	l.setOut()
	if l.Go(func() { defer l.comeBack(); f() }) {
		return true
	}
	l.comeBack()
	return false
}

func (l *Life) setOut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errands++
}

func (l *Life) comeBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.errands--; l.errands == 0 && l.noErrands != nil {
		close(l.noErrands)
		l.noErrands = nil
	}
}

// AwaitErrands waits until no Errand, Deliver or UntilGone is under way, or ctx or the life ends. Call it before you end the
// life of a session whose nodes stay at the service.
func (l *Life) AwaitErrands(ctx context.Context) {
	l.mu.Lock()
	if l.errands == 0 {
		l.mu.Unlock()
		return
	}
	if l.noErrands == nil {
		l.noErrands = make(chan struct{})
	}
	noErrands := l.noErrands
	l.mu.Unlock()
	select {
	case <-noErrands:
	case <-l.Done():
	case <-ctx.Done():
	}
}

// next returns what to do next, or nil when this goroutine has lingered long enough.
func (l *Life) next() func() {
	defer l.rest.Add(-1)
	if l.rest.Add(1) > maxIdle {
		return nil
	}
	t := time.NewTimer(lingerFor)
	defer t.Stop()
	select {
	case f := <-l.idle:
		return f
	case <-t.C:
	case <-l.ctx.Done():
	}
	return nil
}

// Rest waits until nothing runs on the life any more, or ctx ends. Call it after End.
func (l *Life) Rest(ctx context.Context) error {
	resting := make(chan struct{})
	go func() {
		l.work.Wait()
		close(resting)
	}()
	select {
	case <-resting:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stopped returns why a call on ctx must return: the life is over, or ctx has ended. If it returns nil, the call may go
// on.
func (l *Life) Stopped(ctx context.Context) error {
	if err := l.Why(); err != nil {
		return err
	}
	return ctx.Err()
}

// Bind returns a context that ends with ctx or with the life; in the latter case its cause is Why.
func (l *Life) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(l.Why()) })
	return bound, func() {
		stop()
		cancel(nil)
	}
}

// Verdict turns the error of a call into the one that the contract wants: once the life is over, that comes first.
func (l *Life) Verdict(err error) error {
	if err != nil && l.Over() && !errors.Is(err, driver.ErrSessionEnded) {
		return l.Why()
	}
	return err
}

// Deadline is the time until which a session is surely kept if nothing more is heard from the service; see
// driver.Session.
type Deadline struct {
	base  time.Time // for its monotonic clock
	until Max       // ns after base
}

// NewDeadline returns a deadline that has already passed: nothing has been heard yet.
func NewDeadline() *Deadline { return &Deadline{base: time.Now()} }

// Renewed records that a renewal sent at that time was answered, and for how long after that time the service surely
// keeps the session. A late answer never moves the deadline back.
func (d *Deadline) Renewed(sent time.Time, kept time.Duration) {
	d.until.Saw(int64(sent.Sub(d.base) + kept))
}

// Time returns the deadline, with a monotonic clock reading.
func (d *Deadline) Time() time.Time { return d.base.Add(time.Duration(d.until.Load())) }

// Passed reports whether the deadline has passed.
func (d *Deadline) Passed() bool { return !time.Now().Before(d.Time()) }

// Max is the greatest number seen so far: a revision, a transaction. Its zero value has seen none.
type Max struct{ seen atomic.Int64 }

// Saw raises the maximum if n is above it. It never lowers it: replies may overtake each other.
func (m *Max) Saw(n int64) {
	for {
		seen := m.seen.Load()
		if n <= seen || m.seen.CompareAndSwap(seen, n) {
			return
		}
	}
}

// Load returns the maximum.
func (m *Max) Load() int64 { return m.seen.Load() }
