package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/file"
	"github.com/turnwise/turnwise/coord/memcached"
	"github.com/turnwise/turnwise/coord/mysql"
	"github.com/turnwise/turnwise/coord/nats"
	"github.com/turnwise/turnwise/coord/postgres"
	"github.com/turnwise/turnwise/coord/redis"
	"github.com/turnwise/turnwise/coord/redis/quorum"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// openers open each service as a store.
var openers = map[Service]func(ctx context.Context, addr string) (register.Store, error){
	Files: func(ctx context.Context, addr string) (register.Store, error) {
		return file.Open(ctx, strings.TrimPrefix(addr, "file://"))
	},
	Redis: func(ctx context.Context, addr string) (register.Store, error) { return redis.Open(ctx, addr) },
	RedisThree: func(ctx context.Context, addr string) (register.Store, error) {
		return quorum.Open(ctx, hostsOf(addr))
	},
	Postgres: func(ctx context.Context, addr string) (register.Store, error) { return postgres.Open(ctx, addr) },
	MariaDB:  func(ctx context.Context, addr string) (register.Store, error) { return mysql.Open(ctx, addr) },
	Memcached: func(ctx context.Context, addr string) (register.Store, error) {
		return memcached.Open(ctx, strings.TrimPrefix(addr, "memcached://"))
	},
	NATS: func(ctx context.Context, addr string) (register.Store, error) { return nats.Open(ctx, addr) },
}

// asked counts what a driver asks of its store.
type asked struct{ reads, swaps, lists atomic.Int64 }

func (a *asked) sum() [3]float64 {
	return [3]float64{float64(a.reads.Load()), float64(a.swaps.Load()), float64(a.lists.Load())}
}

// countedStore is a store whose requests are counted. What a store can do besides, it can do as well.
type countedStore struct {
	register.Store
	*asked
}

type (
	countedSure     struct{ countedStore }
	countedPresence struct {
		countedStore
		kernel register.Presence
	}
)

func counted(s register.Store, a *asked) register.Store {
	c := countedStore{s, a}
	if kernel, ok := s.(register.Presence); ok {
		return countedPresence{c, kernel}
	}
	if _, ok := s.(register.Sure); ok {
		return countedSure{c}
	}
	return c
}

func (c countedStore) Read(ctx context.Context, key string) (register.Item, error) {
	c.reads.Add(1)
	return c.Store.Read(ctx, key)
}

func (c countedStore) Swap(ctx context.Context, s register.Swap) (register.Item, error) {
	c.swaps.Add(1)
	return c.Store.Swap(ctx, s)
}

func (c countedStore) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	c.lists.Add(1)
	return c.Store.List(ctx, prefix, yield)
}

func (countedSure) LosesNoNoteUnsaid() {}

func (c countedPresence) Keep(ctx context.Context, key string) (func(), error) {
	return c.kernel.Keep(ctx, key)
}
func (c countedPresence) Unkept(ctx context.Context, key string) error {
	return c.kernel.Unkept(ctx, key)
}

// waiting measures what clients ask of each store while one of them holds a line, the others wait for it, and nothing happens.
func waiting(b *bench, w *Work, clients int, window time.Duration) ([]Result, error) {
	var results []Result
	var all sync.WaitGroup
	for _, p := range roster() {
		if b.plays(p) && p.Ours && p.Together == 0 && w.on(p.Service) {
			results = append(results, Result{Work: w.Name, Case: fmt.Sprintf("1 holds, %d wait", clients-1), Contestant: p.Name, Service: p.Service, Ours: true})
		}
	}
	for i := range results {
		r := &results[i]
		all.Go(func() {
			columns, err := b.patience(r.Service, clients, window)
			if err != nil {
				r.Error = err.Error()
			}
			r.Extra = columns
			fmt.Fprintf(b.log, "%s: %s %v %v\n", w.Name, r.Service, columns, err)
		})
	}
	all.Wait()
	return results, b.ctx.Err()
}

func (b *bench) patience(on Service, clients int, window time.Duration) ([]Column, error) {
	s, err := b.stage(false).service(b.ctx, on)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(direct(b.ctx, s), window+3*time.Minute)
	defer cancel()
	var count asked
	line := freshLine()
	for i := range clients {
		store, err := openers[on](ctx, s.addr)
		if err != nil {
			return nil, err
		}
		c := coord.NewClient(register.New(counted(store, &count), register.WithTTL(idleTTL)))
		defer c.Close()
		locking, stop := context.WithCancel(ctx)
		defer stop()
		mutex.New(c, line).LockChan(locking)
		for n := 0; n <= i; { // until it stands there
			if n, err = s.standing(ctx, line); err == nil {
				err = pause(ctx, 10*time.Millisecond, nil)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	if err := pause(ctx, time.Duration(window.Minutes()*float64(2*idleTTL)), nil); err != nil { // what comes with a new session is over
		return nil, err
	}
	before := count.sum()
	if err := pause(ctx, window, nil); err != nil {
		return nil, err
	}
	after := count.sum()
	var columns []Column
	for i, name := range []string{"reads a minute", "swaps a minute", "lists a minute"} {
		columns = append(columns, Column{Name: name, Value: (after[i] - before[i]) * float64(time.Minute) / float64(window)})
	}
	return columns, nil
}
