package multi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/internal/taken"
)

// round is one try to take all locks. Only the goroutine of run touches states and the rest; those that take the locks send
// their news to it.
type round struct {
	*Multi
	op     string
	opts   []coord.AcquireOption
	states []state
	waited bool // somebody was in the way
	holds  []*coord.Hold
	leave  []func() // ends the wait, and the watch over the hold

	news    chan news
	over    chan struct{} // closed when nobody receives news any more
	running sync.WaitGroup
}

// news is about one line.
type news struct {
	line int
	is   state // waits, held, or away: it stands there no more, or never did
	hold *coord.Hold
	lost bool  // the hold has ended by itself
	err  error // why it is away
}

// once takes all locks; op is acquire or try. If one was had and is lost before the last one is had, the error is that hold's.
func (m *Multi) once(ctx context.Context, op string, opts ...coord.AcquireOption) (*Hold, error) {
	n := len(m.wants)
	r := &round{Multi: m, op: op, opts: opts, states: make([]state, n), holds: make([]*coord.Hold, n), leave: make([]func(), n),
		news: make(chan news), over: make(chan struct{})}
	err := r.run(ctx)
	close(r.over)
	for _, leave := range r.leave {
		if leave != nil {
			leave()
		}
	}
	if err != nil {
		taken.GiveBack(slices.DeleteFunc(r.holds, func(h *coord.Hold) bool { return h == nil })...)
	}
	r.running.Wait()
	if err != nil {
		return nil, err
	}
	return newHold(ctx, r.holds), nil
}

func (r *round) run(ctx context.Context) error {
	for {
		ask, back := plan(r.states)
		for _, i := range back {
			r.stepBack(i)
		}
		for _, i := range ask {
			r.ask(ctx, i)
		}
		if !slices.ContainsFunc(r.states, func(s state) bool { return s != held }) {
			return r.lost()
		}
		if err := r.hear(ctx, <-r.news); err != nil {
			return err
		}
	}
}

// hear returns an error if the round is over.
func (r *round) hear(ctx context.Context, n news) error {
	switch stepsBack := r.states[n.line] == leaving; {
	case n.lost:
		return r.lost()
	case n.is == held && stepsBack:
		r.release(n.line, n.hold)
		return nil
	case n.is == held:
		r.leave[n.line]()
		r.holds[n.line] = n.hold
		unwatch := context.AfterFunc(n.hold.Context(), func() { r.tell(news{line: n.line, lost: true}) })
		r.leave[n.line] = func() { unwatch() }
	case n.is == waits && stepsBack:
		return nil
	case n.is == away && !stepsBack:
		return r.ended(ctx, n)
	}
	r.waited = r.waited || n.is == waits
	r.states[n.line] = n.is
	return nil
}

// lost returns an error if one of the holds has ended.
func (r *round) lost() error {
	for i, h := range r.holds {
		if h == nil {
			continue
		}
		if err := h.Err(); err != nil {
			return &coord.Error{Op: r.op, Line: r.wants[i].line, Err: err}
		}
	}
	return nil
}

// ended is the error of a call that ends with that of one line. If the time ran out before the service had said anything of
// that line, somebody was in the way in another one, or the service was out of reach. As in a single line, the former is so
// while the session lives.
func (r *round) ended(ctx context.Context, n news) error {
	over, why := ctx.Err(), coord.ErrUnavailable
	if over == nil || !errors.Is(n.err, over) || errors.Is(n.err, coord.ErrBusy) {
		return n.err
	}
	if r.waited && time.Now().Before(r.client.Health().Until) {
		why = coord.ErrBusy
	} else if errors.Is(n.err, why) {
		return n.err
	}
	if cause := context.Cause(ctx); cause != over {
		over = fmt.Errorf("%w: %w", over, cause)
	}
	return &coord.Error{Op: r.op, Line: r.wants[n.line].line, Err: fmt.Errorf("%w: %w", over, why)}
}

func (r *round) tell(n news) (heard bool) {
	select {
	case r.news <- n:
		return true
	case <-r.over:
		return false
	}
}

// ask takes one of the locks in the background.
func (r *round) ask(ctx context.Context, i int) {
	w := r.wants[i]
	r.states[i] = asks
	ctx, cancel := context.WithCancel(ctx)
	r.leave[i] = cancel
	take := r.client.Acquire
	if r.op == try {
		take = r.client.TryAcquire
	}
	opts := append(slices.Clone(r.opts), coord.OnWait(func() { r.tell(news{line: i, is: waits}) }))
	if rules.IsPermits(w.kind) {
		opts = append(opts, coord.Anew())
	}
	r.running.Go(func() {
		h, err := take(ctx, w.line, w.kind, nil, coord.RuleOf(w.kind), opts...)
		switch {
		case err != nil:
			r.tell(news{line: i, err: err})
		case !r.tell(news{line: i, is: held, hold: h}):
			taken.GiveBack(h)
		}
	})
}

// stepBack leaves a line.
func (r *round) stepBack(i int) {
	had := r.states[i] == held
	r.states[i] = leaving
	r.leave[i]()
	if had {
		h := r.holds[i]
		r.holds[i] = nil
		r.release(i, h)
	}
}

func (r *round) release(i int, h *coord.Hold) {
	r.running.Go(func() {
		taken.GiveBack(h)
		r.tell(news{line: i})
	})
}
