package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Shape is what the participants do.
type Shape string

// The shapes.
const (
	// Turns: everyone acquires and releases, again and again, for a window of time.
	Turns Shape = "turns"
	// Drain: everyone waits in one line; then the holder lets go, and each lets go as soon as it holds.
	Drain Shape = "drain"
	// Crowd: many readers hold and a writer waits; then the readers let go, and the writer gets in.
	Crowd Shape = "crowd"
)

// Scenario is something that is measured.
type Scenario struct {
	Shape   Shape
	Kind    Kind
	Line    string // a different one for each run
	Clients int
	Workers int // of each client; 1 if none are stated
	Lines   int // how many lines the turns go round; 1 if none are stated
	Reads   int // percent; then the kind is Write
	Permits int64
	Apart   bool // each client is a process
	Warm    time.Duration
	Window  time.Duration
}

// Sample is the result of one run of a scenario.
type Sample struct {
	Per      time.Duration // of one turn: the elapsed time divided by the turns of all
	Turns    int64
	Requests float64 `json:",omitempty"` // at the server, per turn
	Bytes    float64 `json:",omitempty"` // both ways, per turn
	Wakes    float64 `json:",omitempty"` // waiters that looked again, per turn

	// Among contenders for one line.
	Passed  float64       `json:",omitempty"` // turns that went to another seat than the turn before, per turn
	Longest time.Duration `json:",omitempty"` // wait of one of them
	Least   float64       `json:",omitempty"` // share of the seat with the fewest turns; 1 is an equal share
	Most    float64       `json:",omitempty"`
}

// run runs a scenario with one contestant. meter counts the server's requests, and may be nil.
func run(ctx context.Context, c *Contestant, addr string, s Scenario, meter func() (float64, error)) (Sample, error) {
	if c.Program != nil {
		return runChild(ctx, c, addr, s)
	}
	if s.Apart {
		return runApart(ctx, c, addr, s)
	}
	var woken atomic.Int64
	t := &table{scenario: s, contestant: c, woken: &woken, meter: meter}
	defer t.leave()
	if err := t.sit(ctx, Setting{Addr: addr, Timeout: sessions, Woken: &woken, Observer: c.Observer}); err != nil {
		return Sample{}, err
	}
	switch s.Shape {
	case Drain:
		return t.drain(ctx)
	case Crowd:
		return t.crowd(ctx)
	}
	return t.turns(ctx)
}

// sessions is how long sessions last. On a store that forgets, the first client waits for that long.
var sessions = 30 * time.Second

// table is a scenario under way: its clients, and a seat for each worker.
type table struct {
	scenario   Scenario
	contestant *Contestant
	woken      *atomic.Int64
	meter      func() (float64, error)
	clients    []Client
	seats      []Client
	shares     atomic.Pointer[shares]
}

func (t *table) sit(ctx context.Context, s Setting) error {
	for range t.scenario.Clients {
		c, err := t.contestant.Open(ctx, s)
		if err != nil {
			return err
		}
		t.clients = append(t.clients, c)
		t.seats = append(t.seats, c)
		for range t.scenario.Workers - 1 {
			seat, err := c.Another(ctx)
			if err != nil {
				return err
			}
			t.seats = append(t.seats, seat)
		}
	}
	return nil
}

func (t *table) leave() {
	var all sync.WaitGroup
	for i := len(t.seats) - 1; i >= 0; i-- {
		all.Go(t.seats[i].Close)
	}
	all.Wait()
}

// count returns what the server and the observer have counted so far.
func (t *table) count() (requests, wakes float64, err error) {
	if t.meter != nil {
		requests, err = t.meter()
	}
	return requests, float64(t.woken.Load()), err
}

// over makes a sample of what has happened since a call of count.
func (t *table) over(turns int64, elapsed time.Duration, requests, wakes float64) (Sample, error) {
	r, w, err := t.count()
	return sampled(turns, elapsed, r-requests, w-wakes), err
}

func sampled(turns int64, elapsed time.Duration, requests, wakes float64) Sample {
	n := float64(turns)
	return Sample{Per: elapsed / time.Duration(turns), Turns: turns, Requests: requests / n, Wakes: wakes / n}
}

func (t *table) want(seat, turn int) Want {
	w := Want{Kind: t.scenario.Kind, Line: t.scenario.Line, Permits: t.scenario.Permits, Together: t.contestant.Together}
	draw := seat*31 + turn*17
	if t.scenario.Lines > 1 {
		w.Line = fmt.Sprintf("%s-%d", w.Line, draw%t.scenario.Lines)
	}
	if w.Kind == Write && draw%100 < t.scenario.Reads {
		w.Kind = Read
	}
	return w
}

// lastTurn is how long a worker may go on waiting when everything is measured: some wait for word that never comes.
const lastTurn = 5 * time.Second

func (t *table) turns(ctx context.Context) (Sample, error) {
	var stop atomic.Bool
	var done atomic.Int64
	failed := make(chan error, len(t.seats))
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	var all sync.WaitGroup
	for i, seat := range t.seats {
		all.Go(func() {
			for turn := 0; !stop.Load(); turn++ {
				asked := time.Now()
				if err := take1(ctx, seat, t.want(i, turn), func() { t.shares.Load().had(i, asked) }); err != nil {
					failed <- err
					return
				}
				done.Add(1)
			}
		})
	}
	defer func() {
		stop.Store(true)
		defer time.AfterFunc(lastTurn, giveUp).Stop()
		all.Wait()
	}()
	for done.Load() == 0 { // the first on a store that forgets waits
		if err := pause(ctx, time.Millisecond, failed); err != nil {
			return Sample{}, err
		}
	}
	if err := pause(ctx, t.scenario.Warm, failed); err != nil {
		return Sample{}, err
	}
	t.shares.Store(newShares(len(t.seats)))
	requests, wakes, err := t.count()
	if err != nil {
		return Sample{}, err
	}
	before, since := done.Load(), time.Now()
	for {
		if err := pause(ctx, t.scenario.Window, failed); err != nil {
			return Sample{}, err
		}
		if done.Load() > before { // on a slow machine a window of the smoke test may see none
			break
		}
	}
	r, w, err := t.count() // turns go on while the server reports its count, now as before the window
	turns, elapsed := done.Load()-before, time.Since(since)
	s := sampled(turns, elapsed, r-requests, w-wakes)
	if t.scenario.Kind == Lock && t.scenario.Lines <= 1 && len(t.seats) > 1 {
		t.shares.Load().sum(&s)
	}
	return s, err
}

// take1 takes one turn. It calls inside, if there is one, when it has it.
func take1(ctx context.Context, c Client, w Want, inside func()) error {
	release, err := c.Acquire(ctx, w)
	if err != nil {
		return err
	}
	if inside != nil {
		inside()
	}
	return release()
}

// shares counts the turns that each seat has had in a line since the window began.
type shares struct {
	mu      sync.Mutex
	turns   []int64
	last    int // the seat that had the turn before
	passed  int64
	longest time.Duration
}

func newShares(seats int) *shares { return &shares{turns: make([]int64, seats), last: -1} }

func (a *shares) had(seat int, asked time.Time) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turns[seat]++
	a.longest = max(a.longest, time.Since(asked))
	if seat != a.last {
		a.last = seat
		a.passed++
	}
}

// sum fills in a sample. A seat that still waits and has had no turn shows as a share of zero.
func (a *shares) sum(s *Sample) {
	a.mu.Lock()
	defer a.mu.Unlock()
	total := int64(0)
	for _, n := range a.turns {
		total += n
	}
	if total == 0 {
		return
	}
	equal := float64(total) / float64(len(a.turns))
	s.Passed, s.Longest = float64(a.passed)/float64(total), a.longest
	s.Least, s.Most = float64(slices.Min(a.turns))/equal, float64(slices.Max(a.turns))/equal
}

func pause(ctx context.Context, d time.Duration, failed <-chan error) error {
	select {
	case <-time.After(d):
		return nil
	case err := <-failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *table) drain(ctx context.Context) (Sample, error) {
	first, err := t.contestant.Open(ctx, Setting{Addr: addrOf(ctx), Timeout: sessions, Woken: t.woken})
	if err != nil {
		return Sample{}, err
	}
	defer first.Close()
	release, err := first.Acquire(ctx, t.want(0, 0))
	if err != nil {
		return Sample{}, err
	}
	failed := make(chan error, len(t.seats))
	var all sync.WaitGroup
	for i, seat := range t.seats {
		all.Go(func() {
			if err := take1(ctx, seat, t.want(i, 0), nil); err != nil {
				failed <- err
			}
		})
		if (i+1)%atOnce == 0 {
			if err := t.reach(ctx, i+2, failed); err != nil {
				release()
				return Sample{}, err
			}
		}
	}
	if err := t.stand(ctx, len(t.seats)+1, failed); err != nil {
		release()
		return Sample{}, err
	}
	requests, wakes, err := t.count()
	if err != nil {
		return Sample{}, err
	}
	bytes := bytesOf(ctx)
	since := time.Now()
	if err := release(); err != nil {
		return Sample{}, err
	}
	all.Wait()
	elapsed := time.Since(since)
	if len(failed) > 0 {
		return Sample{}, <-failed
	}
	s, err := t.over(int64(len(t.seats)), elapsed, requests, wakes)
	s.Bytes = float64(bytesOf(ctx)-bytes) / float64(s.Turns)
	return s, err
}

func (t *table) crowd(ctx context.Context) (Sample, error) {
	writer, err := t.contestant.Open(ctx, Setting{Addr: addrOf(ctx), Timeout: sessions, Woken: t.woken})
	if err != nil {
		return Sample{}, err
	}
	defer writer.Close()
	failed := make(chan error, len(t.seats)+1)
	var inside, all sync.WaitGroup
	inside.Add(len(t.seats))
	leave := make(chan struct{})
	want := t.want(0, 0)
	want.Kind = Read
	for _, seat := range t.seats {
		all.Go(func() {
			release, err := seat.Acquire(ctx, want)
			inside.Done()
			if err == nil {
				<-leave
				err = release()
			}
			if err != nil {
				failed <- err
			}
		})
	}
	inside.Wait()
	requests, wakes, err := t.count()
	if err != nil {
		close(leave)
		return Sample{}, err
	}
	written := make(chan time.Time, 1)
	all.Go(func() {
		want := want
		want.Kind = Write
		release, err := writer.Acquire(ctx, want)
		written <- time.Now()
		if err == nil {
			err = release()
		}
		if err != nil {
			failed <- err
		}
	})
	err = t.stand(ctx, len(t.seats)+1, failed)
	since := time.Now()
	close(leave)
	all.Wait()
	if err == nil && len(failed) > 0 {
		err = <-failed
	}
	if err != nil {
		return Sample{}, err
	}
	return t.over(1, (<-written).Sub(since), requests, wakes)
}

// stand waits until n stand in line, and then until the server has nothing more to do for them: it may take seconds until
// all have read a long line.
func (t *table) stand(ctx context.Context, n int, failed <-chan error) error {
	if err := t.reach(ctx, n, failed); err != nil {
		return err
	}
	return t.settle(ctx, failed)
}

// atOnce is how many join a queue at the same time. Joining is not measured; with more at once, some contestants would time
// out.
const atOnce = 200

// reach waits until n stand in line.
func (t *table) reach(ctx context.Context, n int, failed <-chan error) error {
	place := t.contestant.Place(t.scenario.Line)
	for {
		have, err := standing(ctx, place)
		if err != nil || have >= n {
			return err
		}
		if err := pause(ctx, 20*time.Millisecond, failed); err != nil {
			return err
		}
	}
}

func (t *table) settle(ctx context.Context, failed <-chan error) error {
	for last := -1000.0; ; {
		if err := pause(ctx, 500*time.Millisecond, failed); err != nil {
			return err
		}
		requests, _, err := t.count()
		if err != nil || requests-last < 20 { // renewals, and the query itself
			return err
		}
		last = requests
	}
}
