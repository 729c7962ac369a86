package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/etcd"
	"github.com/turnwise/turnwise/coord/trace"
	"github.com/turnwise/turnwise/coord/zk"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/recipes/semaphore"
)

// permits is how many permits each of the semaphores has.
const permits = 3

// quietLines is how many lines each worker wants once in a while, each by a client that does nothing else.
const quietLines = 2

func (w *worker) runOurs() {
	var clients []*coord.Client
	for i := range 2 + quietLines {
		servers := w.job.Servers
		if i >= 2 && len(servers) > 0 { // or else all would flee to the leader in time
			servers = servers[(w.job.Slot+i)%len(servers):][:1]
		}
		c := w.client(servers)
		if c == nil {
			return
		}
		clients = append(clients, c)
	}
	var all sync.WaitGroup
	errands := slices.Concat(ourErrands(clients[0], clients[1]), w.builtErrands(clients[0]), w.quietErrands(clients[0], clients[2:]))
	for i, errand := range errands {
		random := rand.New(rand.NewPCG(w.job.Seed, uint64(i)))
		all.Go(func() { w.pursue(errand, random) })
	}
	all.Go(func() { w.runsSlots(clients[0], rand.New(rand.NewPCG(w.job.Seed, uint64(len(errands))))) })
	all.Go(func() { w.ownsShards(clients[1]) })
	all.Go(func() { w.meets(clients[0], rand.New(rand.NewPCG(w.job.Seed, uint64(len(errands)+1)))) })
	all.Go(func() { w.belongs(clients[1], rand.New(rand.NewPCG(w.job.Seed, uint64(len(errands)+2)))) })
	all.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, c := range clients {
		all.Go(func() { _ = c.Shutdown(ctx) }) // the judge sees what it leaves behind
	}
	all.Wait()
}

// client connects, and tries again as long as the service is down. It returns nil if the worker is told to finish before
// that.
func (w *worker) client(servers []string) *coord.Client {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		c, err := w.connect(ctx, servers)
		cancel()
		if err == nil {
			return c
		}
		select {
		case <-w.draining:
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (w *worker) connect(ctx context.Context, servers []string) (*coord.Client, error) {
	traced := coord.WithObserver(trace.To(w.trace, w.job.Service))
	if w.job.URL != "" {
		return backend.Open(ctx, w.job.URL, backend.WithClient(traced))
	}
	if w.job.Service == "zk" {
		return zk.Connect(ctx, servers, zk.WithTTL(w.job.Session), zk.WithClient(traced))
	}
	return etcd.Connect(ctx, clientv3.Config{Endpoints: servers}, etcd.WithTTL(w.job.Session), etcd.WithClient(traced))
}

func always(kind string) func(*rand.Rand) string { return func(*rand.Rand) string { return kind } }

// oneOrTwo are the kinds of contenders for a semaphore's permits.
func oneOrTwo(random *rand.Rand) string { return [...]string{"S1of3", "S2of3"}[random.IntN(2)] }

func weight(kind string) int64 {
	if kind == "S2of3" {
		return 2
	}
	return 1
}

// quietErrands are for lines that are mostly free. Each is wanted by one client, which asks for nothing for long. So its
// first request after that is the first that anybody hears of it, and what it believes then comes from what was said since.
// It keeps what it gets for long. If it believes for too long, somebody who tries often gets in beside it.
func (w *worker) quietErrands(busy *coord.Client, quiet []*coord.Client) []errand {
	var all []errand
	add := func(number int, keeps bool, acquire func(context.Context) (*coord.Hold, error)) {
		all = append(all, errand{line: fmt.Sprintf("quiet-%d", number), kind: always("lock"), fenced: true, quiet: keeps, brief: !keeps,
			acquire: func(ctx context.Context, _ string) (*claim, error) { return ours(acquire(ctx)) }})
	}
	for number := range w.job.Workers * quietLines {
		add(number, false, mutex.New(busy, fmt.Sprintf("quiet-%d", number)).TryLock)
	}
	for i, c := range quiet {
		number := w.job.Slot*quietLines + i
		add(number, true, mutex.New(c, fmt.Sprintf("quiet-%d", number)).Lock)
	}
	return all
}

// ourErrands has a separate client for the mutex: a client that asks for nothing else while it holds or waits learns of
// trouble only if it looks for it.
func ourErrands(client, alone *coord.Client) []errand {
	m, try := mutex.New(alone, "mutex"), mutex.New(client, "try-mutex")
	rw := rwlock.New(client, "rwlock")
	sem, trySem := semaphore.New(client, "semaphore", permits), semaphore.New(client, "try-semaphore", permits)
	seat := election.New(client, "election")
	return []errand{
		{line: "mutex", kind: always("lock"), fenced: true, acquire: func(ctx context.Context, _ string) (*claim, error) {
			return ours(m.Lock(ctx))
		}},
		{line: "try-mutex", kind: always("lock"), fenced: true, acquire: func(ctx context.Context, _ string) (*claim, error) {
			return ours(try.TryLock(ctx))
		}},
		{line: "semaphore", kind: oneOrTwo, acquire: func(ctx context.Context, kind string) (*claim, error) {
			return ours(sem.Acquire(ctx, weight(kind)))
		}},
		{line: "try-semaphore", kind: oneOrTwo, acquire: func(ctx context.Context, kind string) (*claim, error) {
			return ours(trySem.TryAcquire(ctx, weight(kind)))
		}},
		{line: "rwlock", kind: func(random *rand.Rand) string { return [...]string{"W", "R", "R"}[random.IntN(3)] },
			fenced: true, acquire: func(ctx context.Context, kind string) (*claim, error) {
				if kind == "R" {
					return ours(rw.RLock(ctx))
				}
				h, err := rw.Lock(ctx)
				c, err := ours(h, err)
				if err == nil {
					c.downgrade = func() error { return rw.Downgrade(context.Background(), h) }
				}
				return c, err
			}},
		{line: "election", kind: always("lead"), fenced: true, acquire: func(ctx context.Context, _ string) (*claim, error) {
			term, err := seat.Campaign(ctx, []byte("me"))
			if err != nil {
				return nil, err
			}
			return ours(term.Hold, nil)
		}},
	}
}

func ours(h *coord.Hold, err error) (*claim, error) {
	if err != nil {
		return nil, err
	}
	return &claim{
		node:    h.Node().ID,
		token:   int64(h.Token()),
		valid:   func() bool { return h.Err() == nil },
		release: h.Release,
	}, nil
}
