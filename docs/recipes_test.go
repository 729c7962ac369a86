package docs

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/barrier"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/group"
	"github.com/turnwise/turnwise/recipes/multi"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/once"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/recipes/semaphore"
	"github.com/turnwise/turnwise/recipes/shards"
)

// The functions are what recipes.md shows, each as one process would run it.

type work func(ctx context.Context, h *coord.Hold) error

func showMutex(ctx context.Context, client *coord.Client, ship work) error {
	lock := mutex.New(client, "orders", mutex.MaxWait(time.Minute)) // after that coord.ErrBusy
	return lock.Do(ctx, func(ctx context.Context, h *coord.Hold) error {
		return ship(ctx, h) // stops when ctx ends, and sends h.Token() along
	})
}

func showTogether(ctx context.Context, client *coord.Client, ship work) error {
	lock := mutex.New(client, "orders", mutex.Together(50*time.Millisecond))
	var all sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		all.Go(func() { errs[i] = lock.Do(ctx, ship) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func showRWLock(ctx context.Context, client *coord.Client, write, read work) error {
	report := rwlock.New(client, "report")
	h, err := report.Lock(ctx)
	if err != nil {
		return err
	}
	defer h.Release()
	if err := write(h.Context(), h); err != nil {
		return err
	}
	if err := report.Downgrade(ctx, h); err != nil { // from here on readers come in, and no writer
		return err
	}
	return errors.Join(read(h.Context(), h), h.Release()) // which says whether it was held to the end
}

func showSemaphore(ctx context.Context, client *coord.Client, fetch work) error {
	downloads := semaphore.New(client, "downloads", 3)
	return downloads.Do(ctx, 1, func(ctx context.Context, h *coord.Hold) error {
		return fetch(ctx, h)
	})
}

func showElection(ctx context.Context, client *coord.Client, lead work) error {
	seat := election.New(client, "scheduler")
	return seat.Run(ctx, []byte("10.0.0.7:80"), func(ctx context.Context, term *election.Term) error {
		return lead(ctx, term.Hold) // returns when ctx ends; if the term was lost, Run stands again
	})
}

func showRank(ctx context.Context, client *coord.Client, rank int, lead work) error {
	seat := election.New(client, "scheduler", election.Rank(rank))
	return seat.Run(ctx, nil, func(ctx context.Context, term *election.Term) error {
		err := lead(ctx, term.Hold)
		if errors.Is(context.Cause(ctx), election.ErrBetter) {
			return nil // Run stands again, behind the better one
		}
		return err
	})
}

func showMulti(ctx context.Context, client *coord.Client, transfer work) error {
	both := multi.New(client, multi.Write("accounts/7"), multi.Write("accounts/3"), multi.Permits("transfers", 8, 1))
	return both.Do(ctx, func(ctx context.Context, h *multi.Hold) error {
		return transfer(ctx, h.Hold("accounts/7")) // each line has a token of its own
	})
}

func showOnce(ctx context.Context, client *coord.Client, slot int64, backup work) error {
	job := once.New(client, "nightly", once.AtMostOnce)
	ran, err := job.Do(ctx, slot, backup)
	if err == nil && !ran {
		return nil // somebody else has run it
	}
	return err
}

func showGroup(ctx context.Context, client *coord.Client, route func(members []coord.Node)) error {
	workers := group.New(client, "workers")
	return workers.Do(ctx, []byte("10.0.0.7"), func(ctx context.Context, h *coord.Hold) error {
		for view, err := range workers.Watch(ctx) {
			if err == nil { // else what was yielded before may be stale; the loop goes on
				route(view.Members)
			}
		}
		return nil
	})
}

func showShards(ctx context.Context, client *coord.Client, consume work) error {
	partitions := shards.New(client, "partitions", 6)
	return partitions.Run(ctx, func(ctx context.Context, shard int, h *coord.Hold) error {
		return consume(ctx, h) // of this shard; returns when ctx ends, for the next owner waits for that
	})
}

func showBarrier(ctx context.Context, client *coord.Client, compute func(ctx context.Context) error) error {
	step := barrier.New(client, "step", 3)
	for range 10 {
		if err := compute(ctx); err != nil {
			return err
		}
		if _, err := step.Wait(ctx); err != nil { // all three are through, or nobody goes on
			return err
		}
	}
	return nil
}

func showAsking(ctx context.Context, client *coord.Client, index work) error {
	return mutex.New(client, "nightly").Do(ctx, func(ctx context.Context, h *coord.Hold) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			if _, err := h.Wanted(ctx); err == nil {
				stop() // somebody behind asks for it: index ends when it suits, and Do lets go
			}
		}()
		return index(ctx, h)
	})
}

func showAsk(ctx context.Context, client *coord.Client) error {
	return client.Ask(ctx, "nightly", "the database is to be moved")
}

func showMaxHold(ctx context.Context, client *coord.Client, ship work) error {
	lock := mutex.New(client, "orders", mutex.MaxHold(10*time.Minute))
	return lock.Do(ctx, func(ctx context.Context, h *coord.Hold) error {
		until, _ := ctx.Deadline() // in ten minutes
		if time.Until(until) < time.Minute {
			return errors.New("no time left for the next order")
		}
		return ship(ctx, h)
	})
}

// crowd runs what each of so many processes does, and counts who works, and who does at the same time.
type crowd struct {
	mu                 sync.Mutex
	calls, inside, top int
}

func (c *crowd) work(ctx context.Context, _ *coord.Hold) error {
	c.mu.Lock()
	c.calls, c.inside = c.calls+1, c.inside+1
	c.top = max(c.top, c.inside)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.inside--
		c.mu.Unlock()
	}()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	return nil
}

func TestTheRecipesInThePageDoWhatItSays(t *testing.T) {
	type process = func(ctx context.Context, c *coord.Client, w work) error
	for name, s := range map[string]struct {
		processes  int
		run        process
		calls, top int
	}{
		"mutex":    {3, showMutex, 3, 1},
		"together": {2, showTogether, 40, 1},
		"rwlock": {3, func(ctx context.Context, c *coord.Client, w work) error {
			return showRWLock(ctx, c, w, func(context.Context, *coord.Hold) error { return nil })
		}, 3, 1},
		"semaphore": {7, showSemaphore, 7, 3},
		"election":  {3, showElection, 3, 1},
		"multi":     {3, showMulti, 3, 1},
		"once": {3, func(ctx context.Context, c *coord.Client, w work) error {
			return showOnce(ctx, c, 17, w)
		}, 1, 1},
		"shards": {2, showShards, 6, 6},
		"barrier": {3, func(ctx context.Context, c *coord.Client, w work) error {
			return showBarrier(ctx, c, func(ctx context.Context) error { return w(ctx, nil) })
		}, 30, 3},
		"maxhold": {2, showMaxHold, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := mem.New()
				defer service.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
				defer cancel()
				var c crowd
				var all sync.WaitGroup
				for range s.processes {
					all.Go(func() {
						if err := s.run(ctx, service.Client(), c.work); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				if c.calls < s.calls || name != "shards" && c.calls > s.calls { // a shard that moves is run again
					t.Errorf("it was run %d times, not %d", c.calls, s.calls)
				}
				if c.top != s.top {
					t.Errorf("at one time it was run %d times, not %d", c.top, s.top)
				}
			})
		})
	}
}

func TestWhoIsAskedInThePageLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := mem.New()
		defer service.Close()
		done := make(chan error, 1)
		go func() {
			done <- showAsking(t.Context(), service.Client(), func(ctx context.Context, _ *coord.Hold) error {
				<-ctx.Done()
				return nil
			})
		}()
		synctest.Wait()
		if err := errors.Join(showAsk(t.Context(), service.Client()), <-done); err != nil {
			t.Error(err)
		}
	})
}

func TestTheBetterCandidateInThePageLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := mem.New()
		defer service.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		leads := make(chan int, 10)
		for _, rank := range []int{1, 5} {
			all.Go(func() {
				if err := showRank(ctx, service.Client(), rank, func(ctx context.Context, _ *coord.Hold) error {
					leads <- rank
					<-ctx.Done()
					return ctx.Err()
				}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		if first, then := <-leads, <-leads; first != 1 || then != 5 {
			t.Errorf("first %d leads, then %d", first, then)
		}
		cancel()
		all.Wait()
	})
}

func TestTheGroupInThePageIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := mem.New()
		defer service.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		both := make(chan bool, 100)
		for range 2 {
			all.Go(func() {
				_ = showGroup(ctx, service.Client(), func(members []coord.Node) {
					if len(members) == 2 {
						both <- true
					}
				})
			})
		}
		<-both
		cancel()
		all.Wait()
	})
}
