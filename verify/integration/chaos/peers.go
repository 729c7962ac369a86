package main

import (
	"context"
	"math/rand/v2"
	"reflect"
	"strconv"
	"sync"
	"time"

	gozk "github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// runPeers competes for the lines of the stock libraries, used as their documentation shows.
func (w *worker) runPeers() {
	var all sync.WaitGroup
	for i, errand := range w.peerErrands() {
		random := rand.New(rand.NewPCG(w.job.Seed, uint64(i)))
		all.Go(func() { w.pursue(errand, random) })
	}
	all.Wait()
}

func (w *worker) peerErrands() []errand {
	if s, ok := stores[w.job.Service]; ok {
		return s.peers(w)
	}
	if w.job.Service == "zk" {
		conn, _, err := gozk.Connect(w.job.Servers, w.job.Session, gozk.WithLogInfo(false))
		if err != nil {
			panic(err)
		}
		return []errand{{line: "zk.Lock", kind: always("lock"), acquire: func(context.Context, string) (*claim, error) {
			lock := gozk.NewLock(conn, "/peer/zk.Lock", gozk.WorldACL(gozk.PermAll))
			if err := lock.Lock(); err != nil { // it takes no context
				return nil, err
			}
			return &claim{
				node:    reflect.ValueOf(lock).Elem().FieldByName("lockPath").String(),
				valid:   unaware,
				release: lock.Unlock,
			}, nil
		}}}
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: w.job.Servers, DialTimeout: 5 * time.Second})
	if err != nil {
		panic(err)
	}
	sessions := &peerSessions{client: client, ttl: int(w.job.Session / time.Second)}
	return []errand{
		{line: "concurrency.Mutex", kind: always("lock"), fenced: true, acquire: func(ctx context.Context, _ string) (*claim, error) {
			s, err := sessions.get(ctx)
			if err != nil {
				return nil, err
			}
			m := concurrency.NewMutex(s, "peer/concurrency.Mutex")
			if err := m.Lock(ctx); err != nil {
				return nil, err
			}
			return stock(s, m.Key(), revisionOf(m, "myRev"), func() error {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				return m.Unlock(ctx)
			}), nil
		}},
		{line: "concurrency.Election", kind: always("lead"), fenced: true, acquire: func(ctx context.Context, _ string) (*claim, error) {
			s, err := sessions.get(ctx)
			if err != nil {
				return nil, err
			}
			e := concurrency.NewElection(s, "peer/concurrency.Election")
			if err := e.Campaign(ctx, "me"); err != nil {
				return nil, err
			}
			return stock(s, e.Key(), e.Rev(), func() error {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				return e.Resign(ctx)
			}), nil
		}},
	}
}

func revisionOf(m *concurrency.Mutex, field string) int64 {
	return reflect.ValueOf(m).Elem().FieldByName(field).Int()
}

// stock makes a claim of a hold whose session says when it is over.
func stock(s *concurrency.Session, key string, rev int64, release func() error) *claim {
	return &claim{
		node:  key + "@" + strconv.FormatInt(rev, 10),
		token: rev,
		valid: func() bool {
			select {
			case <-s.Done():
				return false
			default:
				return true
			}
		},
		release: release,
	}
}

// peerSessions provides the worker's session, and a new one once that is over.
type peerSessions struct {
	client *clientv3.Client
	ttl    int

	mu   sync.Mutex
	last *concurrency.Session
}

func (p *peerSessions) get(ctx context.Context) (*concurrency.Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != nil {
		select {
		case <-p.last.Done():
		default:
			return p.last, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	lease, err := p.client.Grant(ctx, int64(p.ttl))
	if err != nil {
		return nil, err
	}
	s, err := concurrency.NewSession(p.client, concurrency.WithLease(lease.ID))
	if err == nil {
		p.last = s
	}
	return s, err
}
