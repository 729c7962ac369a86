package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
)

// What the obligations are for: a coord.Client on the driver.
var clients = []scenario{
	{name: "a hold ends before the next one enters: nothing passes", run: holdEndsFirst(func(l *Link) func() { return l.Freeze(Both) })},
	{name: "a hold ends before the next one enters: no request passes", run: holdEndsFirst(func(l *Link) func() { return l.Freeze(Requests) })},
	{name: "a hold ends before the next one enters: the link is cut", run: holdEndsFirst(func(l *Link) func() { return l.Cut() })},
	{name: "a hold whose session is ended is lost", run: holdExpires},
	{name: "a waiter whose session is ended joins again", run: waiterExpires},
	{name: "an operator breaks a hold and a wait", run: breaks},
	{name: "an acquire that is given up leaves nothing", run: acquireGivenUp},
	{name: "a try tells busy from out of reach", run: tryTells},
	{name: "a release under every fate", run: releaseUnderFate},
	{name: "closing with a hold lets nobody in beside it", run: closeWithHold},
	{name: "a release after closing takes the node away", run: releaseAfterClose},
	{name: "closing beside a hold leaves nothing of a join under way", run: closeWhileJoining},
	{name: "shutting down waits for the holds", run: shutdownWaits},
	{name: "one holder at a time while links are cut", run: oneHolderAtATime},
}

// client is a coord.Client on a link of its own.
func (s *scene) client() (*coord.Client, *Link) {
	s.Helper()
	c, l, _ := s.watchedClient()
	return c, l
}

func (s *scene) watchedClient() (*coord.Client, *Link, *watched) {
	s.Helper()
	l := s.connect()
	w := &watched{Driver: l.Driver}
	c := coord.NewClient(w)
	s.Cleanup(func() { _ = c.Close() })
	return c, l, w
}

// oneByOne is the rule of a mutex.
var oneByOne = coord.Rule{WaitFor: func(_ coord.Node, ahead []coord.Node) []coord.Node {
	return ahead[max(0, len(ahead)-1):]
}}

func (s *scene) acquire(c *coord.Client) *coord.Hold {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	h, err := c.Acquire(ctx, s.line, "lock", nil, oneByOne)
	if err != nil {
		s.Fatalf("Acquire: %v", err)
	}
	return h
}

func (s *scene) release(h *coord.Hold) {
	s.Helper()
	if err := h.Release(); err != nil {
		s.Fatalf("Release: %v", err)
	}
}

// acquiring acquires in the background.
func (s *scene) acquiring(ctx context.Context, c *coord.Client) <-chan coord.Result {
	got := make(chan coord.Result, 1)
	line := s.line
	go func() {
		h, err := c.Acquire(ctx, line, "lock", nil, oneByOne)
		got <- coord.Result{Hold: h, Err: err}
	}()
	return got
}

func (s *scene) granted(d time.Duration, got <-chan coord.Result, what string) *coord.Hold {
	s.Helper()
	r, ok := arrives(d, got)
	if !ok {
		s.Fatalf("%s: no turn within %v", what, d)
	}
	if r.Err != nil {
		s.Fatalf("%s: %v", what, r.Err)
	}
	return r.Hold
}

// queued waits until n are in line.
func (s *scene) queued(n int) {
	s.Helper()
	s.eventually(s.patience, fmt.Sprintf("%d are in line", n), func() bool { return len(s.svc.Stored(s, s.line)) == n })
}

// lost waits for a hold to end, and checks that it was lost.
func (s *scene) lost(d time.Duration, h *coord.Hold) {
	s.Helper()
	s.wait(d, h.Context().Done(), "the hold's context ends")
	if cause := context.Cause(h.Context()); !errors.Is(cause, coord.ErrLost) || !errors.Is(h.Err(), coord.ErrLost) {
		s.Errorf("the hold ended with %v and says %v, want ErrLost", cause, h.Err())
	}
	if err := h.Release(); !errors.Is(err, coord.ErrLost) {
		s.Errorf("Release of a lost hold: %v, want ErrLost", err)
	}
}

func holdEndsFirst(trouble func(l *Link) (heal func())) func(s *scene) {
	return func(s *scene) {
		holder, l, w := s.watchedClient()
		waiter, _ := s.client()
		s.needs("freeze and cut a link", l.Freeze == nil || l.Cut == nil)
		h := s.acquire(holder)
		next := s.acquiring(s.ctx, waiter)
		s.queued(2)
		heal := trouble(l)
		defer heal()
		if !s.silenceEnds(l, over(w.last())) {
			if r, ok := arrives(0, next); ok || h.Err() != nil {
				s.Errorf("only the kernel ends a session: the hold says %v, the next one got %v", h.Err(), r)
			}
			heal()
			s.release(h)
			s.release(s.granted(2*soon, next, "the holder can be reached again, and has released"))
			return
		}
		second := s.granted(s.outlives(), next, "the holder is out of reach")
		if h.Err() == nil || h.Context().Err() == nil {
			s.Errorf("two hold: the first says %v, its context %v", h.Err(), h.Context().Err())
		}
		if second.Token() <= h.Token() {
			s.Errorf("token %d comes after %d", second.Token(), h.Token())
		}
		s.lost(soon, h)
		s.release(second)
		heal()
		s.release(s.acquire(holder)) // the client goes on in another session
	}
}

func holdExpires(s *scene) {
	c, l, w := s.watchedClient()
	s.needs("expire a session", l.Expire == nil)
	h := s.acquire(c)
	l.Expire(s, w.last())
	s.lost(s.outlives(), h)
	h = s.acquire(c)
	s.release(h)
}

func waiterExpires(s *scene) {
	other, _ := s.client()
	c, l, w := s.watchedClient()
	s.needs("expire a session", l.Expire == nil)
	h := s.acquire(other)
	waiter := s.acquiring(s.ctx, c)
	s.queued(2)
	first := s.look(l)[1]
	l.Expire(s, w.last())
	s.eventually(s.outlives(), "the waiter is in line again", func() bool {
		nodes := s.look(l)
		return len(nodes) == 2 && nodes[1].Token > first.Token
	})
	s.release(h)
	s.release(s.granted(2*soon, waiter, "the holder has released"))
}

func breaks(s *scene) {
	holder, _ := s.client()
	waiter, _ := s.client()
	operator, _ := s.client()
	h := s.acquire(holder)
	got := s.acquiring(s.ctx, waiter)
	s.queued(2)
	var nodes []coord.Node
	err := patient(s.ctx, func() (err error) {
		nodes, err = operator.Line(s.ctx, s.line)
		return err
	})
	if err != nil || len(nodes) != 2 || !nodes[0].Holds || nodes[1].Holds {
		s.Fatalf("Line: %v, error %v", nodes, err)
	}
	if err := operator.Break(s.ctx, nodes[1]); err != nil {
		s.Fatalf("Break: %v", err)
	}
	if r, ok := arrives(soon, got); !ok {
		s.Error("a waiter does not notice that its node was removed")
	} else if !errors.Is(r.Err, coord.ErrRemoved) {
		s.Errorf("a waiter whose node was removed: %v, want ErrRemoved", r.Err)
	}
	if err := h.Err(); err != nil {
		s.Errorf("the holder: %v", err)
	}
	time.Sleep(200 * time.Millisecond) // the node of a hold is watched once it has lasted for a while
	if err := operator.Break(s.ctx, nodes[0]); err != nil {
		s.Fatalf("Break: %v", err)
	}
	s.lost(soon, h)
	if err := operator.Break(s.ctx, nodes[0]); !errors.Is(err, coord.ErrRemoved) {
		s.Errorf("Break once more: %v, want ErrRemoved", err)
	}
}

func acquireGivenUp(s *scene) {
	holder, _ := s.client()
	c, l := s.client()
	h := s.acquire(holder)
	for i := range 10 {
		if l.Fate != nil && i%2 == 0 {
			l.Fate([]Fate{LostBefore, LostAfter, AppliedLate}[i/2%3])
		}
		ctx, cancel := context.WithTimeout(s.ctx, rand.N(100*time.Millisecond))
		_, err := c.Acquire(ctx, s.line, "lock", nil, oneByOne)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("Acquire: %v, want the context's error", err)
		}
	}
	s.settles(s.line, 1)
	s.release(h)
	s.gone(s.line)
}

func tryTells(s *scene) {
	holder, _ := s.client()
	c, l := s.client()
	h := s.acquire(holder)
	try := func() (*coord.Hold, error) { return c.TryAcquire(s.ctx, s.line, "lock", nil, oneByOne) }
	if _, err := s.tried(try); !errors.Is(err, coord.ErrBusy) {
		s.Errorf("try in a busy line: %v, want ErrBusy", err)
	}
	s.release(h)
	h, err := s.tried(try)
	if err != nil {
		s.Fatalf("try in an empty line: %v", err)
	}
	s.release(h)
	s.needs("freeze a link", l.Freeze == nil)
	thaw := l.Freeze(Both)
	defer thaw()
	d := took(func() { _, err = try() })
	if !errors.Is(err, coord.ErrUnavailable) || errors.Is(err, coord.ErrBusy) {
		s.Errorf("try out of reach: %v, want ErrUnavailable", err)
	}
	if d > l.RequestTimeout()+ending+slack {
		s.Errorf("try out of reach took %v, the deadline of a request is %v", d, l.RequestTimeout())
	}
	thaw()
	s.gone(s.line)
}

func releaseUnderFate(s *scene) {
	c, l := s.client()
	s.needs("decide the fate of requests", l.Fate == nil)
	for _, f := range []Fate{LostBefore, LostAfter, AppliedLate} {
		h := s.acquire(c)
		l.Fate(f)
		s.release(h)
		s.release(h)
		next := s.acquire(c)
		if next.Token() <= h.Token() {
			s.Errorf("token %d comes after %d", next.Token(), h.Token())
		}
		s.release(h)
		time.Sleep(2 * Late)
		if nodes := s.look(l); len(nodes) != 1 || nodes[0].Token<<coord.TurnBits != next.Token() {
			s.Errorf("%v: Line shows %v, %d holds", f, brief(nodes...), next.Token())
		}
		s.release(next)
	}
	s.gone(s.line)
}

func closeWithHold(s *scene) {
	holder, l := s.client()
	waiter, _ := s.client()
	h := s.acquire(holder)
	got := s.acquiring(s.ctx, waiter)
	s.queued(2)
	_ = holder.Close()
	if cause := context.Cause(h.Context()); !errors.Is(cause, coord.ErrClosed) {
		s.Errorf("the hold of a closed client ended with %v, want ErrClosed", cause)
	}
	if time.Sleep(s.svc.TTL / 5); len(s.svc.Stored(s, s.line)) != 2 {
		s.Error("closing the client has removed the node of a hold that was not released")
	}
	if s.silenceEnds(l, answered(got, "the next one is in beside a hold that was not released")) || l.Kill == nil {
		s.release(s.granted(s.outlives(), got, "the client of the holder was closed"))
		return
	}
	l.Kill()
	s.release(s.granted(2*soon, got, "the process of the holder was killed"))
}

// Work may end after its client was closed. Where only the kernel tells of a death, what it held must not stay until the
// process ends.
func releaseAfterClose(s *scene) {
	holder, l := s.client()
	s.needs("keep a session for as long as its process lives", l.Strength().Death&driver.ByTTL != 0)
	next, _ := s.client()
	h := s.acquire(holder)
	turn := s.acquiring(s.ctx, next)
	s.queued(2)
	if err := holder.Close(); err != nil {
		s.Fatalf("Close: %v", err)
	}
	select {
	case r := <-turn:
		s.Fatalf("the work has not ended, and somebody enters: %v", r.Err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := h.Release(); !errors.Is(err, coord.ErrClosed) {
		s.Errorf("Release: %v, want ErrClosed", err)
	}
	s.release(s.granted(min(soon, s.svc.TTL/2), turn, "the hold was released"))
	s.gone(s.line)
}

// The session goes on until the TTL for the sake of the hold, but a join under way must come to nothing.
func closeWhileJoining(s *scene) {
	c, l := s.client()
	s.needs("freeze a link", l.Freeze == nil)
	s.acquire(c)
	s.line = s.anotherLine()
	// A join of a line that is fresh to its client, or to the service, may need an answer before there is a node. The service
	// may take an empty line away at any time, so somebody else stands there.
	before := s.acquire(c)
	other, _ := s.client()
	turn := s.acquiring(s.ctx, other)
	s.queued(2)
	s.release(before)
	holder := s.granted(2*soon, turn, "the line is free")
	thaw := l.Freeze(Replies)
	defer thaw()
	joining := s.acquiring(s.ctx, c)
	s.queued(2)
	time.AfterFunc(50*time.Millisecond, thaw)
	_ = c.Close()
	if n := s.svc.Stored(s, s.line); len(n) != 1 {
		s.Errorf("stored after Close, beside the holder: %q", n)
	}
	s.release(holder)
	if r, ok := arrives(s.patience, joining); !ok || !errors.Is(r.Err, coord.ErrClosed) {
		s.Errorf("the one that was joining: %v, want ErrClosed", r.Err)
	}
}

func shutdownWaits(s *scene) {
	c, _ := s.client()
	h := s.acquire(c)
	over := make(chan error, 1)
	go func() { over <- c.Shutdown(s.ctx) }()
	select {
	case err := <-over:
		s.Fatalf("Shutdown did not wait for the hold: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	s.release(h)
	select {
	case err := <-over:
		if err != nil {
			s.Errorf("Shutdown: %v", err)
		}
	case <-time.After(s.patience):
		s.Fatal("Shutdown does not return")
	}
	if n := s.svc.Stored(s, s.line); len(n) > 0 {
		s.Errorf("stored after Shutdown: %q", n)
	}
	if _, err := c.Acquire(s.ctx, s.line, "lock", nil, oneByOne); !errors.Is(err, coord.ErrClosed) {
		s.Errorf("Acquire after Shutdown: %v, want ErrClosed", err)
	}
}

func oneHolderAtATime(s *scene) {
	var cs []*coord.Client
	var ls []*Link
	for range 3 {
		c, l := s.client()
		cs, ls = append(cs, c), append(ls, l)
	}
	s.needs("cut a link", ls[0].Cut == nil)
	const each = 4
	var mu sync.Mutex
	var tokens []coord.Token
	var current atomic.Pointer[coord.Hold]
	stop := make(chan struct{})
	var cutter, all sync.WaitGroup
	cutter.Go(func() {
		// Not for ever: a busy machine may need more than the time between two cuts for anything at all.
		for i, limit := 0, time.Now().Add(s.patience); time.Now().Before(limit); i++ {
			select {
			case <-stop:
				return
			case <-time.After(70 * time.Millisecond):
			}
			heal := ls[i%len(ls)].Cut()
			time.Sleep(rand.N(20 * time.Millisecond))
			heal()
		}
	})
	for _, c := range cs {
		for range 4 {
			all.Go(func() {
				for range each {
					h, err := c.Acquire(s.ctx, s.line, "lock", nil, oneByOne)
					if err != nil {
						s.Errorf("Acquire: %v", err)
						return
					}
					if was := current.Swap(h); was != nil && was.Err() == nil && h.Err() == nil {
						s.Errorf("%d and %d hold at once", was.Token(), h.Token())
					}
					mu.Lock()
					tokens = append(tokens, h.Token())
					mu.Unlock()
					time.Sleep(rand.N(3 * time.Millisecond))
					current.CompareAndSwap(h, nil)
					_ = h.Release()
				}
			})
		}
	}
	all.Wait()
	close(stop)
	cutter.Wait()
	if !slices.IsSorted(tokens) || len(slices.Compact(slices.Clone(tokens))) != len(tokens) {
		s.Errorf("tokens do not rise: %d", tokens)
	}
	if len(tokens) != len(cs)*4*each {
		s.Errorf("%d turns, want %d", len(tokens), len(cs)*4*each)
	}
	s.gone(s.line)
}
