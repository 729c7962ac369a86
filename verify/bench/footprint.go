package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	gozk "github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const lineLength = 10

// footprint makes n wait at once and measures what they take.
func footprint(b *bench, w *Work, n int) ([]Result, error) {
	var results []Result
	players := append(roster(),
		&Contestant{Name: "bare watches", Service: ZooKeeper, Bare: true, Kinds: []Kind{Lock}, Open: openZooKeeperWatches},
		&Contestant{Name: "bare watches", Service: Etcd, Bare: true, Kinds: []Kind{Lock}, Open: openEtcdWatches})
	for _, p := range players {
		watcher := p.Name == "bare watches"
		if !b.plays(p) || p.Together > 0 || p.Open == nil || !p.does(Lock) || !slices.Contains(clusters, p.Service) || p.Bare != watcher {
			continue
		}
		r := Result{Work: w.Name, Case: fmt.Sprintf("%d waiters", n), Contestant: p.Name, Service: p.Service, Ours: p.Ours, Bare: p.Bare}
		columns, err := b.weigh(p, n)
		if err != nil {
			r.Error = err.Error()
			fmt.Fprintf(b.log, "%s: %s/%s failed: %v\n", w.Name, p.Service, p.Name, err)
		}
		r.Extra = columns
		fmt.Fprintf(b.log, "%s: %s/%s %v\n", w.Name, p.Service, p.Name, columns)
		results = append(results, r)
	}
	return results, b.ctx.Err()
}

// weigh makes n wait at once, and returns what each of them takes.
func (b *bench) weigh(p *Contestant, n int) ([]Column, error) {
	s, err := b.stage(false).service(b.ctx, p.Service)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(direct(b.ctx, s), 2*time.Minute)
	defer cancel()
	client, err := p.Open(ctx, Setting{Addr: s.addr, Timeout: time.Minute, Woken: new(atomic.Int64)})
	if err != nil {
		return nil, err
	}
	waiting, stop := context.WithCancel(ctx)
	c := &crowd{lines: (n + lineLength - 1) / lineLength, name: freshLine(), failed: make(chan error, n)}
	defer func() { // only the end of the connection ends zk.Lock's wait, and not always
		stop()
		client.Close()
		c.ended(10 * time.Second)
	}()
	defer c.leave()
	if err := c.sit(ctx, client, n+c.lines); err != nil {
		return nil, err
	}
	if !p.Bare {
		if err := c.hold(ctx, n); err != nil {
			return nil, err
		}
	}
	memory, goroutines := taken()
	watches, err := s.watches()
	if err != nil {
		return nil, err
	}
	c.wait(waiting, n)
	if err := c.stands(ctx, s, watches, n); err != nil {
		return nil, err
	}
	m, g := taken()
	now, err := s.watches()
	each := func(v float64) float64 { return v / float64(n) }
	columns := []Column{
		{"memory", each(m - memory), "bytes"},
		{"goroutines", each(g - goroutines), ""},
		{"watches at the server", each(now - watches), ""},
	}
	return columns, err
}

// crowd is many who wait on one connection, in lines of lineLength.
type crowd struct {
	name   string
	lines  int
	seats  []Client // of those who wait, then of the holders
	all    sync.WaitGroup
	joined atomic.Int64
	failed chan error
}

func (c *crowd) want(i int) Want {
	return Want{Kind: Lock, Line: fmt.Sprintf("%s-%d", c.name, i%c.lines)}
}

func (c *crowd) sit(ctx context.Context, client Client, n int) error {
	for range n {
		seat, err := client.Another(ctx)
		if err != nil {
			return err
		}
		c.seats = append(c.seats, seat)
	}
	return nil
}

// hold gives each line a holder, from those behind the first n seats.
func (c *crowd) hold(ctx context.Context, n int) error {
	for i := range c.lines {
		if _, err := c.seats[n+i].Acquire(ctx, c.want(i)); err != nil {
			return err
		}
	}
	return nil
}

// wait lets n join. They wait until they hold, or ctx ends.
func (c *crowd) wait(ctx context.Context, n int) {
	slots := make(chan struct{}, 64) // joins at the same time
	for i := range n {
		c.all.Go(func() {
			slots <- struct{}{}
			left := sync.OnceFunc(func() { <-slots })
			time.AfterFunc(20*time.Millisecond, left)
			c.joined.Add(1)
			release, err := c.seats[i].Acquire(ctx, c.want(i))
			left()
			switch {
			case err == nil:
				release()
			case ctx.Err() == nil:
				c.failed <- err
			}
		})
	}
}

// stands returns when n have joined and their watches stand at the server, beside those from before, and a little later.
func (c *crowd) stands(ctx context.Context, s *service, before float64, n int) error {
	for {
		have, err := s.watches()
		if err != nil {
			return err
		}
		if have-before >= float64(n) && c.joined.Load() == int64(n) {
			return pause(ctx, 2*time.Second, c.failed)
		}
		if err := pause(ctx, 100*time.Millisecond, c.failed); err != nil {
			return fmt.Errorf("%v of %d watches stand: %w", have-before, n, err)
		}
	}
}

func (c *crowd) leave() {
	for _, seat := range slices.Backward(c.seats) {
		seat.Close()
	}
}

// ended returns when nobody waits any more, but no later than in limit.
func (c *crowd) ended(limit time.Duration) {
	ended := make(chan struct{})
	go func() {
		c.all.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(limit):
	}
}

// taken returns the heap and the stacks in use, and the number of goroutines.
func taken() (memory, goroutines float64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse), float64(runtime.NumGoroutine())
}

func openZooKeeperWatches(ctx context.Context, s Setting) (Client, error) {
	conn, err := dialZooKeeper(ctx, s)
	if err != nil {
		return nil, err
	}
	acl := gozk.WorldACL(gozk.PermAll)
	_, _ = conn.Create("/watches", nil, 0, acl)
	return alone{
		acquire: func(ctx context.Context, _ Want) (func() error, error) {
			path, err := conn.Create("/watches/lock-", nil, gozk.FlagEphemeralSequential, acl)
			if err != nil {
				return nil, err
			}
			_, _, gone, err := conn.ExistsW(path)
			if err != nil {
				return nil, err
			}
			select {
			case <-gone:
			case <-ctx.Done():
			}
			return func() error { return conn.Delete(path, -1) }, nil
		},
		close: conn.Close,
	}, nil
}

func openEtcdWatches(ctx context.Context, s Setting) (Client, error) {
	client, lease, err := leased(ctx, s)
	if err != nil {
		return nil, err
	}
	var numbers atomic.Int64
	return alone{
		acquire: func(ctx context.Context, w Want) (func() error, error) {
			key := fmt.Sprintf("watches/%s/%d", w.Line, numbers.Add(1))
			if _, err := client.Put(ctx, key, "", clientv3.WithLease(lease)); err != nil {
				return nil, err
			}
			<-client.Watch(ctx, key)
			return func() error { return ctx.Err() }, nil
		},
		close: func() { client.Close() },
	}, nil
}
