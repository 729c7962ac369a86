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
		if !b.plays(p) || p.Open == nil || !p.does(Lock) || !slices.Contains(clusters, p.Service) || p.Bare != watcher {
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
	lines := (n + lineLength - 1) / lineLength
	name := freshLine()
	var seats []Client
	waiting, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer func() { // only the end of the connection ends zk.Lock's wait, and not always
		stop()
		client.Close()
		ended := make(chan struct{})
		go func() {
			all.Wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
		}
	}()
	for range n + lines {
		seat, err := client.Another(ctx)
		if err != nil {
			return nil, err
		}
		defer seat.Close()
		seats = append(seats, seat)
	}
	want := func(i int) Want { return Want{Kind: Lock, Line: fmt.Sprintf("%s-%d", name, i%lines)} }
	for i := range lines {
		if p.Bare {
			break
		}
		if _, err := seats[n+i].Acquire(ctx, want(i)); err != nil {
			return nil, err
		}
	}
	memory, goroutines := taken()
	watches, err := s.watches()
	if err != nil {
		return nil, err
	}
	slots := make(chan struct{}, 64) // joins at the same time
	var joined atomic.Int64
	failed := make(chan error, n)
	for i := range n {
		all.Go(func() {
			slots <- struct{}{}
			left := sync.OnceFunc(func() { <-slots })
			time.AfterFunc(20*time.Millisecond, left)
			joined.Add(1)
			release, err := seats[i].Acquire(waiting, want(i))
			left()
			switch {
			case err == nil:
				release()
			case waiting.Err() == nil:
				failed <- err
			}
		})
	}
	for {
		have, err := s.watches()
		if err != nil {
			return nil, err
		}
		if have-watches >= float64(n) && joined.Load() == int64(n) {
			break
		}
		if err := pause(ctx, 100*time.Millisecond, failed); err != nil {
			return nil, fmt.Errorf("%v of %d watches stand: %w", have-watches, n, err)
		}
	}
	if err := pause(ctx, 2*time.Second, failed); err != nil {
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
