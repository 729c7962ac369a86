package migrating

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/etcd"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

func concurrencyMutex(ctx context.Context, client *clientv3.Client, work work) error {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(10))
	if err != nil {
		return err
	}
	defer session.Close()
	m := concurrency.NewMutex(session, "orders")
	if err := m.Lock(ctx); err != nil {
		return err
	}
	defer m.Unlock(context.WithoutCancel(ctx))
	return work(ctx, 0) // watch session.Done yourself
}

func ourEtcdMutex(ctx context.Context, cfg clientv3.Config, work work) error {
	client, err := etcd.Connect(ctx, cfg, etcd.WithNames(etcd.Stock))
	if err != nil {
		return err
	}
	defer client.Close()
	return mutex.New(client, "orders").Do(ctx, func(ctx context.Context, h *coord.Hold) error {
		return work(ctx, h.Token()) // ctx ends when the lock is lost
	})
}

func concurrencyElection(ctx context.Context, session *concurrency.Session, lead work) error {
	e := concurrency.NewElection(session, "leader")
	if err := e.Campaign(ctx, "me"); err != nil {
		return err
	}
	defer e.Resign(context.WithoutCancel(ctx))
	return lead(ctx, coord.Token(e.Rev())<<coord.TurnBits) // watch session.Done yourself
}

func ourElection(ctx context.Context, client *coord.Client, lead work) error {
	return election.New(client, "leader").Run(ctx, []byte("me"), func(ctx context.Context, t *election.Term) error {
		return lead(ctx, t.Token()) // ctx ends when the lead is lost; Run then stands again
	})
}

// fromStock is the way from names that others share to names of our own.
func fromStock(ctx context.Context, stock, own *coord.Client, work work) error {
	return mutex.New(stock, "orders").Do(ctx, func(ctx context.Context, _ *coord.Hold) error {
		return mutex.New(own, "orders").Do(ctx, func(ctx context.Context, h *coord.Hold) error {
			return work(ctx, h.Token())
		})
	})
}

func etcdConfig(c *servers.Cluster) clientv3.Config {
	return clientv3.Config{Endpoints: c.Addrs(), Logger: zap.NewNop(), DialTimeout: 20 * time.Second}
}

func theirEtcd(t *testing.T, c *servers.Cluster) *clientv3.Client {
	client, err := clientv3.New(etcdConfig(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func theirSession(t *testing.T, c *servers.Cluster) *concurrency.Session {
	session, err := concurrency.NewSession(theirEtcd(t, c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func TestConcurrencyMutexAndOursAsThePageShowsThem(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	client := theirEtcd(t, cluster)
	their := func(ctx context.Context, work work) error { return concurrencyMutex(ctx, client, work) } // a session for each turn
	our := func(ctx context.Context, work work) error { return ourEtcdMutex(ctx, etcdConfig(cluster), work) }
	meet(t, their, our, their, our)
}

func TestConcurrencyElectionAndOursAsThePageShowsThem(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	var parties []party
	for range 2 {
		session := theirSession(t, cluster)
		client := connected(t)(etcd.Connect(t.Context(), etcdConfig(cluster), etcd.WithNames(etcd.Stock)))
		parties = append(parties,
			func(ctx context.Context, work work) error { return concurrencyElection(ctx, session, work) },
			func(ctx context.Context, work work) error { return ourElection(ctx, client, work) })
	}
	meet(t, parties...)
}

// Without Stock, the old processes and the new ones do not exclude each other.
func TestOnlyStockNamesMeetConcurrency(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	ctx := within(t, time.Minute)
	theirs := concurrency.NewMutex(theirSession(t, cluster), "unseen")
	if err := theirs.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	try := func(opts ...etcd.Option) error {
		h, err := mutex.New(connected(t)(etcd.Connect(ctx, etcdConfig(cluster), opts...)), "unseen").TryLock(ctx)
		if err == nil {
			err = h.Release()
		}
		return err
	}
	if err := try(); err != nil {
		t.Errorf("by the names that we have unless told otherwise: %v", err)
	}
	if err := try(etcd.WithNames(etcd.Stock)); !errors.Is(err, coord.ErrBusy) {
		t.Errorf("with stock names, behind their lock: %v", err)
	}
}

// A fence takes theirs and ours in turn, if theirs are counted as ours are.
func TestTokensGoOnFromConcurrencyElection(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	ctx := within(t, time.Minute)
	session := theirSession(t, cluster)
	client := connected(t)(etcd.Connect(ctx, etcdConfig(cluster), etcd.WithNames(etcd.Stock)))
	var last coord.Token
	rises := func(_ context.Context, token coord.Token) error {
		if token <= last {
			t.Errorf("token %d after %d", token, last)
		}
		last = token
		return nil
	}
	for range 3 {
		if err := errors.Join(concurrencyElection(ctx, session, rises), ourElection(ctx, client, rises)); err != nil {
			t.Fatal(err)
		}
	}
}

// Two values of concurrency.Mutex are one lock if their session is one. Ours exclude each other, and say so at once to whoever
// would wait for himself.
func TestWhoSharesASessionSharesTheirLockAndNotOurs(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	ctx := within(t, time.Minute)
	session := theirSession(t, cluster)
	for range 2 {
		if err := concurrency.NewMutex(session, "again").Lock(ctx); err != nil {
			t.Fatal(err)
		}
	}
	client := connected(t)(etcd.Connect(ctx, etcdConfig(cluster)))
	err := mutex.New(client, "again").Do(ctx, func(ctx context.Context, _ *coord.Hold) error {
		if _, err := mutex.New(client, "again").Lock(ctx); !errors.Is(err, coord.ErrHeld) {
			t.Errorf("within the hold: %v", err)
		}
		if _, err := mutex.New(client, "again").TryLock(context.Background()); !errors.Is(err, coord.ErrBusy) {
			t.Errorf("beside the hold, from the same client: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestFromStockNamesToOurOwn(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	connect := func(opts ...etcd.Option) *coord.Client {
		return connected(t)(etcd.Connect(t.Context(), etcdConfig(cluster), opts...))
	}
	stock, own := connect(etcd.WithNames(etcd.Stock)), connect()
	before := func(ctx context.Context, work work) error { return under(ctx, stock, work) }
	both := func(ctx context.Context, work work) error { return fromStock(ctx, stock, own, work) }
	after := func(ctx context.Context, work work) error { return under(ctx, own, work) }
	meet(t, before, both, before, both)
	meet(t, both, after, both, after)
}

// under is our lock alone.
func under(ctx context.Context, client *coord.Client, work work) error {
	return mutex.New(client, "orders").Do(ctx, func(ctx context.Context, h *coord.Hold) error { return work(ctx, h.Token()) })
}
