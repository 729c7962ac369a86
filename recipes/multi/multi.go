// Package multi takes several locks at once: all of them or none, in the order of their names, so that callers never wait for
// each other in a circle, whatever sets they ask for.
//
// A caller first joins all lines side by side. Nobody in the way: it has everything after one trip to the service. Otherwise
// it keeps what it has up to the first line in which it must wait, in the order of the names, steps back from all lines
// after that one, and waits there. From then on it takes one line after the other. So whoever waits stands only in that
// line, and in lines before it.
//
// The locks are those of the other recipes: Write and Read are a writer and a reader of rwlock, Mutex is a mutex, and Permits
// are those of a semaphore. They wait for others who take the same locks one by one, and the others for them. Whoever does that
// must go by the order of the names, byte by byte, as well: otherwise he and a caller of this package may wait for each other.
package multi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/internal/taken"
)

// The calls, as coord.Error names them.
const (
	acquire = "acquire"
	try     = "try"
)

// Multi is a set of locks and a client. It holds no state and does no I/O until asked; make one wherever you need it.
type Multi struct {
	client    *coord.Client
	wants     []want // in the order of the lines
	bounded   bool
	maxWait   time.Duration
	unordered bool
}

// want is what is asked for in one line.
type want struct {
	line, kind string
	err        error // what is wrong with it
}

// Option says what to take, or how. A nil Option changes nothing.
type Option func(*Multi)

// Write asks for the read/write lock of that name, to write.
func Write(name string) Option { return ask(name, rules.Writer, nil) }

// Read asks for the read/write lock of that name, to read.
func Read(name string) Option { return ask(name, rules.Reader, nil) }

// Mutex asks for the mutex of that name.
func Mutex(name string) Option { return ask(name, rules.Lock, nil) }

// Permits asks for n of the permits of the semaphore of that name.
func Permits(name string, permits, n int64) Option {
	return ask(name, rules.Permits(n, permits), rules.CheckPermits(n, permits))
}

func ask(line, kind string, err error) Option {
	return func(m *Multi) { m.wants = append(m.wants, want{line, kind, err}) }
}

// MaxWait bounds how long Lock waits, for all locks together. After that it returns an error that is both
// context.DeadlineExceeded and coord.ErrBusy, or coord.ErrUnavailable if the service could not be reached. With zero or less
// it takes the locks if nobody is in the way of any, and does not wait at all.
func MaxWait(d time.Duration) Option { return func(m *Multi) { m.bounded, m.maxWait = true, d } }

// Unordered lets Lock wait although the caller holds a line that comes after one of those it asks for, or permits of the same
// line. Two callers that do so may wait for each other for ever. Without it, Lock returns coord.ErrInvalid if ctx descends from
// such a hold.
func Unordered() Option { return func(m *Multi) { m.unordered = true } }

// New returns what takes these locks together, such as
//
//	multi.New(c, multi.Write("accounts/7"), multi.Write("accounts/3"), multi.Permits("jobs", 8, 2))
//
// Each line can be asked for once.
func New(c *coord.Client, opts ...Option) *Multi {
	m := &Multi{client: c}
	for _, o := range opts {
		if o != nil {
			o(m)
		}
	}
	slices.SortStableFunc(m.wants, func(a, b want) int { return cmp.Compare(a.line, b.line) })
	return m
}

// Lock waits until it has all the locks. ctx governs the wait, not the hold. On failure nothing stays behind; the error names
// the line that it is about. If a line that it has is lost meanwhile, with the session or since an operator breaks it, Lock
// begins again; who breaks its wait ends it (coord.ErrRemoved).
func (m *Multi) Lock(ctx context.Context) (*Hold, error) {
	if err := m.check(ctx, acquire, !m.unordered); err != nil {
		return nil, err
	}
	var opts []coord.AcquireOption
	var noTime error
	switch {
	case m.bounded && m.maxWait <= 0:
		opts, noTime = append(opts, coord.MaxWait(0)), context.DeadlineExceeded
	case m.bounded:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.maxWait)
		defer cancel()
	}
	for {
		h, err := m.once(ctx, acquire, opts...)
		if !isLost(err) {
			return h, err
		}
		if over := cmp.Or(ctx.Err(), noTime); over != nil {
			return nil, fmt.Errorf("%w: %w: %w", err, over, coord.ErrUnavailable)
		}
	}
}

// isLost reports whether a hold was lost before the last one was had. Whoever hears that its node is gone, and gets no answer at
// once, cannot tell whether an operator removed it or the session has ended.
func isLost(err error) bool {
	return errors.Is(err, coord.ErrLost) && !errors.Is(err, coord.ErrClosed)
}

// TryLock takes the locks if nobody is in the way of any, and returns coord.ErrBusy otherwise. Of callers who try at the same
// moment, each may find another in its way: let a random time pass before the next try.
func (m *Multi) TryLock(ctx context.Context) (*Hold, error) {
	if err := m.check(ctx, try, false); err != nil {
		return nil, err
	}
	h, err := m.once(ctx, try)
	if isLost(err) {
		err = fmt.Errorf("%w: %w", err, coord.ErrUnavailable)
	}
	return h, err
}

// Result is what the channel of LockChan delivers.
type Result struct {
	Hold *Hold
	Err  error
}

// LockChan is Lock for a select. If ctx ends, or the hold is lost, before the result has been received, the locks are
// released and the channel delivers the error.
func (m *Multi) LockChan(ctx context.Context) <-chan Result {
	return taken.Chan(ctx, m.Lock, func(h *Hold, err error) Result { return Result{h, err} }, func(_ *Hold, err error) error {
		return &coord.Error{Op: acquire, Err: err}
	}, &coord.Error{Op: acquire, Err: fmt.Errorf("%w: a rule has ended its goroutine", coord.ErrInvalid)})
}

// Do takes the locks, runs fn and releases them. fn's context ends with ctx or with the first of the holds to end. See coord.Do
// for the error: it is coord.ErrLost, or joined with that, if the holds did not last until fn had returned.
func (m *Multi) Do(ctx context.Context, fn func(ctx context.Context, h *Hold) error) error {
	if fn == nil {
		return &coord.Error{Op: "do", Err: fmt.Errorf("%w: the function is nil", coord.ErrInvalid)}
	}
	return taken.Do(ctx, m.Lock, fn)
}

// check finds what can be known to be wrong before anything is asked of the service.
func (m *Multi) check(ctx context.Context, op string, ordered bool) error {
	wrong := func(line string, err error) error {
		return &coord.Error{Op: op, Line: line, Err: fmt.Errorf("%w: %w", coord.ErrInvalid, err)}
	}
	if len(m.wants) == 0 {
		return wrong("", errors.New("no locks to take"))
	}
	for i, w := range m.wants {
		held := m.client.Held(ctx, w.line)
		name := coord.CheckName(w.line)
		switch {
		case name != nil:
			return &coord.Error{Op: op, Line: w.line, Err: errors.Unwrap(name)}
		case w.err != nil:
			return wrong(w.line, w.err)
		case i > 0 && m.wants[i-1].line == w.line:
			return wrong(w.line, errors.New("it is asked for twice"))
		case held != nil && !rules.IsPermits(w.kind):
			return &coord.Error{Op: op, Line: w.line, Err: coord.ErrHeld}
		}
	}
	if !ordered {
		return nil
	}
	first := m.wants[0].line
	for _, h := range m.client.Holds(ctx) {
		if after := h.Node().Line; after >= first {
			return wrong(first, fmt.Errorf("the caller holds %q, which does not come before it: two callers that take locks in different "+
				"orders may wait for each other for ever", after))
		}
	}
	return nil
}
