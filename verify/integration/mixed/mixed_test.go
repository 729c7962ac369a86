package mixed

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/recipes/semaphore"
	"github.com/turnwise/turnwise/verify/integration/service"
	"github.com/turnwise/turnwise/verify/servers"
)

var length = flag.Duration("mixed.length", 20*time.Second, "how long the recipes are used")

const (
	restarts = 5
	ttl      = 5 * time.Second
	permits  = 5
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

func TestAMinuteUnderRestarts(t *testing.T) {
	for _, s := range service.Both {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			cluster := s.Start(t)
			play(t, cluster, s.Client(t, cluster.Addrs(), ttl))
		})
	}
}

// play has sixteen workers use four lines through one client while the server is restarted: sometimes killed, sometimes
// told to stop.
func play(t *testing.T, cluster *servers.Cluster, c *coord.Client) {
	ctx, cancel := context.WithTimeout(t.Context(), *length+2*time.Minute)
	defer cancel()
	workers := []*worker{}
	add := func(n int, take func(ctx context.Context, inside *room) error, inside *room) {
		for range n {
			workers = append(workers, &worker{take: func(ctx context.Context) error { return take(ctx, inside) }})
		}
	}
	add(4, func(ctx context.Context, inside *room) error {
		return work(inside, 1)(mutex.New(c, "mixed/mutex").Lock(ctx))
	}, &room{t: t, places: 1})
	readers := &room{t: t, places: 1000}
	add(3, func(ctx context.Context, inside *room) error {
		return work(inside, 1)(rwlock.New(c, "mixed/rwlock").RLock(ctx))
	}, readers)
	add(2, func(ctx context.Context, inside *room) error {
		return work(inside, 1000)(rwlock.New(c, "mixed/rwlock").Lock(ctx))
	}, readers)
	add(4, func(ctx context.Context, inside *room) error {
		n := 1 + rand.Int64N(permits-1)
		return work(inside, n)(semaphore.New(c, "mixed/semaphore", permits).Acquire(ctx, n))
	}, &room{t: t, places: permits})
	add(3, func(ctx context.Context, inside *room) error {
		term, err := election.New(c, "mixed/election").Campaign(ctx, []byte("me"))
		if err != nil {
			return err
		}
		return work(inside, 1)(term.Hold, nil)
	}, &room{t: t, places: 1})

	run, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(func() { w.run(run) })
	}
	for i := range restarts {
		pause(ctx, *length/(restarts+1))
		if m := cluster.Members()[0]; i%2 == 0 {
			m.Kill()
		} else {
			m.Terminate()
		}
		cluster.Members()[0].Restart(t)
	}
	pause(ctx, *length/(restarts+1))

	// Nobody is stuck: everyone has a turn after the last restart, and ends when told to.
	before := make([]int64, len(workers))
	for i, w := range workers {
		before[i] = w.turns.Load()
	}
	for i, w := range workers {
		for w.turns.Load() == before[i] && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
	if ctx.Err() != nil {
		t.Error("somebody is stuck")
	}
	stop()
	all.Wait()
	turns, failures := int64(0), int64(0)
	for _, w := range workers {
		turns += w.turns.Load()
		failures += w.failures.Load()
	}
	t.Logf("%d turns, %d that failed or were lost, in %v with %d restarts", turns, failures, *length, restarts)

	service.AwaitEmpty(ctx, t, c)
	if err := c.Shutdown(ctx); err != nil {
		t.Errorf("shut down: %v", err)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// worker takes turns until it is told to stop.
type worker struct {
	take            func(ctx context.Context) error
	turns, failures atomic.Int64
}

func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := 200 * time.Millisecond // some give up, most don't
		if rand.IntN(4) > 0 {
			wait = 30 * time.Second
		}
		try, cancel := context.WithTimeout(ctx, wait)
		err := w.take(try)
		cancel()
		if err == nil {
			w.turns.Add(1)
		} else {
			w.failures.Add(1)
		}
	}
}

// room knows who believes that it is inside.
type room struct {
	t      *testing.T
	places int64

	mu     sync.Mutex
	inside map[*coord.Hold]int64
}

// enter fails the test if there is no room for weight beside those who believe that they hold.
func (r *room) enter(h *coord.Hold, weight int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inside == nil {
		r.inside = make(map[*coord.Hold]int64)
	}
	r.inside[h] = weight
	sum := int64(0)
	for other, w := range r.inside {
		if other.Err() == nil {
			sum += w
		}
	}
	if sum > r.places {
		r.t.Errorf("%s: %d taken of %d", h.Node().Line, sum, r.places)
	}
}

func (r *room) leave(h *coord.Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inside, h)
}

// work stays inside for a moment.
func work(inside *room, weight int64) func(*coord.Hold, error) error {
	return func(h *coord.Hold, err error) error {
		if err != nil {
			return err
		}
		inside.enter(h, weight)
		select {
		case <-time.After(rand.N(20 * time.Millisecond)):
		case <-h.Context().Done():
		}
		inside.leave(h)
		if err := h.Release(); err != nil && !errors.Is(err, coord.ErrLost) {
			inside.t.Errorf("release: %v", err)
		} else if err != nil {
			return err
		}
		return nil
	}
}
