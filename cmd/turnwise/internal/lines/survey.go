// Package lines keeps looking at the lines of a service, for any number of viewers: who holds, who waits, who waits for
// whom. However many viewers there are, the service is asked once, and while nobody looks it is asked nothing.
package lines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord"
)

// Source is what a survey asks: a coord.Client.
type Source interface {
	Lines(ctx context.Context, prefix string) ([]string, error)
	Line(ctx context.Context, name string) ([]coord.Node, error)
}

const (
	period   = time.Second     // between two readings of a line
	freshFor = 5 * time.Second // what was read longer ago is stale
	asking   = 5 * time.Second // how long a question may take
	atOnce   = 4               // questions on their way
	rest     = 20 * time.Millisecond
	mostRest = 5 * time.Second
	mostRead = 10_000 // lines
)

// Survey looks at lines. Make it with New, and have Run running.
type Survey struct {
	source  Source
	prefix  string
	only    string // the one line to look at; "": all
	service string
	most    int // contenders of a line on a board
	limit   int // how many lines are read
	rounds  *throttle

	mu      sync.Mutex
	lookers int
	wake    chan struct{} // has room for one
	known   map[string]*record
	more    int
	named   reading
	thought thought
	board   *Board
	changed chan struct{} // closed when board is replaced

	direct direct
}

// reading is how the reading of something went.
type reading struct {
	asOf   time.Time // when the question answered last was sent; the answer is no older
	tried  time.Time // when the last question was sent
	asking bool      // a question is on its way
	err    error     // what the last question came back with
}

// state says how far what was read is known to be so now.
func (r *reading) state(now time.Time) State {
	switch {
	case r.asOf.IsZero():
		return Unread
	case now.Sub(r.asOf) > freshFor:
		return Stale
	}
	return Live
}

// record is what is known of a line.
type record struct {
	reading
	nodes []coord.Node
	turns map[coord.Token]time.Time // when the holders got their turn, if that was seen
	pace  pace
}

// thought is what came of thinking about what was read.
type thought struct {
	rings   map[string]ring
	behind  func(coord.Node) bool // whether somebody is in a circle, or behind one
	circles []Circle
	waits   []Wait
	owners  []Owner
	tangled map[string]bool // lines
}

// New makes a survey of all lines whose names begin with prefix. service names what is looked at, and most is how many
// contenders of each line a board shows.
func New(source Source, service, prefix string, most int) *Survey {
	s := &Survey{source: source, service: service, prefix: prefix, most: most, limit: mostRead, rounds: newThrottle(), wake: make(chan struct{}, 1),
		known: make(map[string]*record), changed: make(chan struct{})}
	s.thought.behind = func(coord.Node) bool { return false }
	s.direct.init()
	s.publish()
	return s
}

// NewOfOne makes a survey of one line.
func NewOfOne(source Source, service, name string) *Survey {
	s := New(source, service, name, Many)
	s.only = name
	s.known[name] = &record{}
	return s
}

// Look has the survey look at its lines until the returned function is called.
func (s *Survey) Look() (stop func()) {
	s.mu.Lock()
	s.lookers++
	first := s.lookers == 1
	s.mu.Unlock()
	if first {
		s.publish() // what was live when somebody last looked no longer is
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lookers--
	})
}

// Board returns what is known, and a channel that is closed when there is a new board.
func (s *Survey) Board() (*Board, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.board, s.changed
}

// Fresh returns a board on which everything was asked for at most a second ago, or the present one when the service fails
// or ctx ends.
func (s *Survey) Fresh(ctx context.Context) *Board {
	since := time.Now().Add(-period)
	defer s.Look()()
	for {
		b, changed := s.Board()
		if b.named.After(since) && (b.Error != "" || b.tried.After(since)) {
			return b
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return b
		}
	}
}

// Run asks the service while somebody looks, until ctx ends.
func (s *Survey) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if !s.looked() {
			select {
			case <-s.wake:
			case <-ctx.Done():
			}
			continue
		}
		s.follow(ctx)
	}
}

func (s *Survey) looked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookers > 0
}

// follow goes on until nobody looks. It publishes what is known every second, even while the service does not answer.
func (s *Survey) follow(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() {
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if b, _ := s.Board(); time.Since(b.Time) > period/2 {
					s.publish()
				}
				if !s.looked() {
					stop() // a question may take long
				}
			case <-ctx.Done():
				return
			}
		}
	})
	for s.looked() && ctx.Err() == nil {
		start := time.Now()
		if s.name(ctx) {
			s.read(ctx, time.Now().Add(period)) // however long the names took
		}
		s.think()
		s.publish()
		sleep(ctx, period-time.Since(start))
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// name finds out which lines there are. It reports whether the service answered.
func (s *Survey) name(ctx context.Context) bool {
	if s.only != "" {
		return true
	}
	var names []string
	at := s.begin(&s.named)
	err := s.rounds.ask(ctx, func(ctx context.Context) (err error) {
		names, err = s.source.Lines(ctx, s.prefix)
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named.done(at, err, ctx)
	if err != nil {
		return false
	}
	s.more = max(0, len(names)-s.limit)
	names = names[:len(names)-s.more]
	there := make(map[string]bool, len(names))
	for _, n := range names {
		there[n] = true
		if s.known[n] == nil {
			s.known[n] = &record{}
		}
	}
	for n := range s.known {
		if !there[n] {
			delete(s.known, n)
		}
	}
	return true
}

func (s *Survey) begin(r *reading) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.tried, r.asking = time.Now(), true
	return r.tried
}

func (r *reading) done(at time.Time, err error, ctx context.Context) {
	r.asking = false
	switch {
	case err == nil && at.After(r.asOf):
		r.asOf, r.err = at, nil
	case err != nil && ctx.Err() == nil: // otherwise nobody wanted to know
		r.err = err
	}
}

// read reads lines until a given moment, beginning with those that were asked for longest ago.
func (s *Survey) read(ctx context.Context, until time.Time) {
	type due struct {
		name  string
		tried time.Time
	}
	var todo []due
	s.mu.Lock()
	for n, r := range s.known {
		if time.Since(r.tried) > period*9/10 {
			todo = append(todo, due{n, r.tried})
		}
	}
	s.mu.Unlock()
	slices.SortFunc(todo, func(a, b due) int {
		if c := a.tried.Compare(b.tried); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	next := make(chan string)
	var all sync.WaitGroup
	var failed atomic.Int32 // how many failed in a row
	for range atOnce {
		all.Go(func() {
			for n := range next {
				if s.readOne(ctx, n) {
					failed.Store(0)
				} else if failed.Add(1) == atOnce {
					stop() // the others would fare no better: start over, with the names
				}
			}
		})
	}
	for _, d := range todo {
		if time.Now().After(until) || ctx.Err() != nil {
			break
		}
		select {
		case next <- d.name:
		case <-ctx.Done():
		}
	}
	close(next)
	all.Wait()
}

// readOne reads one line. It reports whether the service answered.
func (s *Survey) readOne(ctx context.Context, name string) bool {
	s.mu.Lock()
	r := s.known[name]
	s.mu.Unlock()
	if r == nil {
		return true
	}
	var nodes []coord.Node
	at := s.begin(&r.reading)
	err := s.rounds.ask(ctx, func(ctx context.Context) (err error) {
		nodes, err = s.source.Line(ctx, name)
		return err
	})
	s.took(ctx, name, r, nodes, at, err)
	return err == nil || errors.Is(err, coord.ErrDenied)
}

// took records what became of a question.
func (s *Survey) took(ctx context.Context, name string, r *record, nodes []coord.Node, at time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	then, news := r.asOf, err == nil && at.After(r.asOf)
	r.done(at, err, ctx)
	if !news {
		return
	}
	r.pace.observe(r.nodes, then, nodes, at)
	waited := make(map[coord.Token]bool)
	for _, n := range r.nodes {
		if !n.Holds {
			waited[n.Token] = true
		}
	}
	turns := make(map[coord.Token]time.Time)
	for _, n := range nodes {
		if t, ok := r.turns[n.Token]; ok && n.Holds {
			turns[n.Token] = t
		} else if n.Holds && waited[n.Token] {
			turns[n.Token] = at
		}
	}
	r.nodes, r.turns = nodes, turns
	if len(nodes) == 0 && s.only == "" && s.known[name] == r {
		delete(s.known, name)
	}
}

// think finds out who waits for whom in what was read. That may take a while, and nobody waits for it: until it is done, boards show
// what came of it the last time.
func (s *Survey) think() {
	s.mu.Lock()
	now, rings := time.Now(), s.thought.rings
	var all []standing
	for n, r := range s.known {
		all = append(all, standing{name: n, asOf: r.asOf, all: r.nodes})
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b standing) int { return strings.Compare(a.name, b.name) })
	g, found, stuck, rings := assess(all, rings, now)
	t := thought{rings: rings, circles: found, waits: g.waits(found), tangled: make(map[string]bool)}
	t.behind = func(n coord.Node) bool { return stuck[g.owner(n)] }
	told := make(map[string]bool)
	for _, w := range t.waits {
		for _, id := range []string{w.From, w.To} {
			if !told[id] {
				told[id] = true
				t.owners = append(t.owners, Owner{id, g.owners[id].label})
			}
		}
	}
	for _, l := range g.lines {
		t.tangled[l.name] = l.tangled()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.thought = t
}

// publish makes a board from what is known.
func (s *Survey) publish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	b := &Board{Version: Version, Time: *stamp(now), Service: s.service, More: s.more,
		Lines: []Line{}, Owners: []Owner{}, Waits: []Wait{}, Circles: []Circle{}}
	b.named, b.tried = s.named.tried, now
	names := make([]string, 0, len(s.known))
	for n, r := range s.known {
		names = append(names, n)
		if r.tried.Before(b.tried) {
			b.tried = r.tried
		}
		if r.asking { // not done
			b.tried = time.Time{}
		}
	}
	if s.named.asking {
		b.named = time.Time{}
	}
	slices.Sort(names)
	for _, n := range names {
		l := s.known[n].show(n, s.most, s.thought.behind, now)
		if s.thought.tangled[n] && l.Error == "" {
			l.Error = "too tangled to find every circle"
		}
		b.Lines = append(b.Lines, l)
	}
	b.Circles = append(b.Circles, s.thought.circles...)
	b.Waits = append(b.Waits, s.thought.waits...)
	b.Owners = append(b.Owners, s.thought.owners...)
	whole := s.named
	if s.only != "" {
		whole = s.known[s.only].reading
		b.named = b.tried
	}
	b.State = whole.state(now)
	if !whole.asOf.IsZero() {
		b.AsOf = stamp(whole.asOf)
	}
	if whole.err != nil {
		b.Error = say(whole.err)
	} else if b.State != Live && whole.asking {
		b.Error = "the service has not answered yet"
	}
	close(s.changed)
	s.board, s.changed = b, make(chan struct{})
}

// say puts an error into words for people, without the program's name, which is shown elsewhere.
func say(err error) string {
	var e *coord.Error
	if errors.As(err, &e) {
		err = e.Err // which call it was means nothing to them
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("the service has not answered within %v", asking)
	}
	return coord.Printable(strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "turnwise: ", "")), " "))
}
