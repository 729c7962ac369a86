package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/client/v3/experimental/recipes"
	"go.uber.org/zap"

	"github.com/turnwise/turnwise/coord/etcd"
)

func etcdContestants() []*Contestant {
	return []*Contestant{
		{Name: "bare put + delete", Service: Etcd, Kinds: []Kind{Lock}, Bare: true, Open: openBareEtcd},
		{Name: "turnwise", Service: Etcd, Kinds: []Kind{Lock, Read, Write, Permit}, Ours: true,
			Place: func(line string) string { return "turnwise/" + line + "//" },
			Open: func(ctx context.Context, s Setting) (Client, error) {
				c, err := etcd.Connect(ctx, clientv3.Config{Endpoints: []string{s.Addr}}, etcd.WithTTL(s.Timeout), etcd.WithClient(watching(s)))
				if err != nil {
					return nil, err
				}
				return ours(c), nil
			}},
		{Name: "concurrency.Mutex", Service: Etcd, Kinds: []Kind{Lock},
			Place: func(line string) string { return "mutex/" + line + "/" }, Open: openSessions(lockMutex)},
		{Name: "concurrency.Election", Service: Etcd, Kinds: []Kind{Lock},
			Place: func(line string) string { return "election/" + line + "/" }, Open: openSessions(campaign)},
		{Name: "recipes.RWMutex", Service: Etcd, Kinds: []Kind{Read, Write},
			Place: func(line string) string { return "rwmutex/" + line + "/" }, Open: openSessions(lockRWMutex)},
	}
}

func dialEtcd(s Setting) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{s.Addr}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

// leased returns a client and a lease that outlives the measurement without being renewed.
func leased(ctx context.Context, s Setting) (*clientv3.Client, clientv3.LeaseID, error) {
	client, err := dialEtcd(s)
	if err != nil {
		return nil, 0, err
	}
	lease, err := client.Grant(ctx, 600)
	if err != nil {
		client.Close()
		return nil, 0, err
	}
	return client, lease.ID, nil
}

// openBareEtcd puts a key with a lease for an acquire and deletes it for a release.
func openBareEtcd(ctx context.Context, s Setting) (Client, error) {
	client, lease, err := leased(ctx, s)
	if err != nil {
		return nil, err
	}
	var numbers atomic.Int64
	return alone{
		acquire: func(ctx context.Context, w Want) (func() error, error) {
			key := fmt.Sprintf("bare/%s/%x-%d", w.Line, lease, numbers.Add(1))
			if _, err := client.Put(ctx, key, "", clientv3.WithLease(lease)); err != nil {
				return nil, err
			}
			return func() error {
				_, err := client.Delete(ctx, key)
				return err
			}, nil
		},
		close: func() { client.Close() },
	}, nil
}

// stock is a client of the package concurrency. It has one session for each contender, because its keys are named after
// leases.
type stock struct {
	client  *clientv3.Client
	session *concurrency.Session
	ttl     int
	shared  bool
	take    func(ctx context.Context, s *concurrency.Session, w Want) (func() error, error)
}

func openSessions(take func(ctx context.Context, s *concurrency.Session, w Want) (func() error, error)) func(context.Context, Setting) (Client, error) {
	return func(ctx context.Context, s Setting) (Client, error) {
		client, err := dialEtcd(s)
		if err != nil {
			return nil, err
		}
		c := &stock{client: client, ttl: max(2, int(s.Timeout.Seconds())), take: take}
		if c.session, err = concurrency.NewSession(client, concurrency.WithTTL(c.ttl)); err != nil {
			client.Close()
			return nil, err
		}
		return c, nil
	}
}

func (c *stock) Acquire(ctx context.Context, w Want) (func() error, error) {
	return c.take(ctx, c.session, w)
}

func (c *stock) Another(context.Context) (Client, error) {
	s, err := concurrency.NewSession(c.client, concurrency.WithTTL(c.ttl))
	if err != nil {
		return nil, err
	}
	return &stock{client: c.client, session: s, ttl: c.ttl, take: c.take, shared: true}, nil
}

func (c *stock) Close() {
	if c.shared { // the lease expires by itself; closing thousands would slow down the contestant measured next
		c.session.Orphan()
		return
	}
	c.session.Close()
	c.client.Close()
}

func lockMutex(ctx context.Context, s *concurrency.Session, w Want) (func() error, error) {
	m := concurrency.NewMutex(s, "mutex/"+w.Line)
	if err := m.Lock(ctx); err != nil {
		return nil, err
	}
	return func() error { return m.Unlock(context.WithoutCancel(ctx)) }, nil
}

func campaign(ctx context.Context, s *concurrency.Session, w Want) (func() error, error) {
	e := concurrency.NewElection(s, "election/"+w.Line)
	if err := e.Campaign(ctx, ""); err != nil {
		return nil, err
	}
	return func() error { return e.Resign(context.WithoutCancel(ctx)) }, nil
}

func lockRWMutex(_ context.Context, s *concurrency.Session, w Want) (func() error, error) {
	m := recipe.NewRWMutex(s, "rwmutex/"+w.Line)
	if w.Kind == Read {
		return m.RUnlock, m.RLock()
	}
	return m.Unlock, m.Lock()
}
