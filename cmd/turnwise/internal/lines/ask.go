package lines

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord"
)

// throttle bounds how often a service is asked: a few questions at once, and after each a pause as long as the question took.
type throttle struct {
	slots chan struct{}

	mu    sync.Mutex
	asked Asked
}

// Asked counts what a service was asked.
type Asked struct {
	Questions, Errors int64
	Took              time.Duration
}

func newThrottle() *throttle { return &throttle{slots: make(chan struct{}, atOnce)} }

// ask asks one question, which may take a while.
func (t *throttle) ask(ctx context.Context, question func(ctx context.Context) error) error {
	select {
	case t.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	start := time.Now()
	err := question(ctx)
	took := time.Since(start)
	time.AfterFunc(min(max(took, rest), mostRest), func() { <-t.slots })
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked.Questions++
	t.asked.Took += took
	if err != nil {
		t.asked.Errors++
	}
	return err
}

func (t *throttle) sum() Asked {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked
}

// Asked returns what the service has been asked so far.
func (s *Survey) Asked() Asked {
	a, b := s.rounds.sum(), s.direct.throttle.sum()
	return Asked{a.Questions + b.Questions, a.Errors + b.Errors, a.Took + b.Took}
}

// direct answers questions about one line with what is read after they were asked. Callers who ask the same question while
// one waits to be sent share its answer.
type direct struct {
	throttle *throttle

	mu     sync.Mutex
	queued map[string]*question
}

type question struct {
	done  chan struct{}
	nodes []coord.Node // valid after done, as are the fields that follow
	asOf  time.Time
	err   error
}

const mostQueued = 1000

// ErrBusy says that there are too many questions at once.
var ErrBusy = errors.New("too much is asked of this page: try again")

// ErrNotShown says that a line is none of those that the survey is of.
var ErrNotShown = errors.New("this page shows other lines only")

func (d *direct) init() { d.throttle, d.queued = newThrottle(), make(map[string]*question) }

// Ask returns who stands in a line, as it was after the call.
func (s *Survey) Ask(ctx context.Context, name string) ([]coord.Node, error) {
	nodes, _, err := s.askAt(ctx, name)
	return nodes, err
}

func (s *Survey) askAt(ctx context.Context, name string) ([]coord.Node, time.Time, error) {
	if err := coord.CheckName(name); err != nil {
		return nil, time.Time{}, err
	}
	if !strings.HasPrefix(name, s.prefix) { // who may look at some lines is not to see the others by asking for them
		return nil, time.Time{}, ErrNotShown
	}
	d := &s.direct
	d.mu.Lock()
	q := d.queued[name]
	switch {
	case q == nil && len(d.queued) >= mostQueued:
		d.mu.Unlock()
		return nil, time.Time{}, ErrBusy
	case q == nil:
		q = &question{done: make(chan struct{})}
		d.queued[name] = q
		go d.answer(s.source, name, q)
	}
	d.mu.Unlock()
	select {
	case <-q.done:
		return q.nodes, q.asOf, q.err
	case <-ctx.Done():
		return nil, time.Time{}, ctx.Err()
	}
}

func (d *direct) answer(source Source, name string, q *question) {
	defer close(q.done)
	// The question is also for callers who join until it begins, so no single caller's context ends it.
	q.err = d.throttle.ask(context.Background(), func(ctx context.Context) (err error) {
		d.mu.Lock()
		delete(d.queued, name)
		d.mu.Unlock()
		q.asOf = time.Now()
		q.nodes, err = source.Line(ctx, name)
		return err
	})
}

// Line returns one line, with Many of its contenders, as it was after the call.
func (s *Survey) Line(ctx context.Context, name string) (Line, error) {
	nodes, asOf, err := s.askAt(ctx, name)
	if err != nil {
		return Line{}, err
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	r := record{reading: reading{asOf: asOf}, nodes: nodes}
	if k := s.known[name]; k != nil {
		r.turns, r.pace = k.turns, k.pace
	}
	// Even if the answer took a while it is not stale: it is what was asked for.
	l := r.show(name, Many, s.thought.behind, now)
	l.State = Live
	return l, nil
}
