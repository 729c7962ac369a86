package migrating

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/redis"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

func redsyncLock(ctx context.Context, client *goredis.Client, work work) error {
	sync := redsync.New(redsyncredis.NewPool(client))
	m := sync.NewMutex("lock:orders", redsync.WithExpiry(10*time.Second))
	if err := m.LockContext(ctx); err != nil { // 32 tries, unless you say WithTries
		return err
	}
	defer m.UnlockContext(context.WithoutCancel(ctx))
	return work(ctx, 0) // call m.Extend yourself, and watch m.Until
}

func redislockLock(ctx context.Context, client *goredis.Client, work work) error {
	lock, err := redislock.Obtain(ctx, client, "lock:orders", 10*time.Second, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond),
	})
	if err != nil {
		return err
	}
	defer lock.Release(context.WithoutCancel(ctx))
	return work(ctx, 0) // call lock.Refresh yourself
}

func ourRedisMutex(ctx context.Context, work work) error {
	client, err := redis.Connect(ctx, "redis://localhost:6379/0")
	if err != nil {
		return err
	}
	defer client.Close()
	return mutex.New(client, "orders").Do(ctx, func(ctx context.Context, h *coord.Hold) error {
		return work(ctx, h.Token()) // renewed meanwhile; ctx ends when the lock is lost
	})
}

// inBoth takes the old lock, then ours. It is what runs while old and new processes are there.
func inBoth(ctx context.Context, old *redsync.Mutex, ours *mutex.Mutex, work work) error {
	if err := old.LockContext(ctx); err != nil {
		return err
	}
	defer old.UnlockContext(context.WithoutCancel(ctx))
	return ours.Do(ctx, func(ctx context.Context, h *coord.Hold) error {
		if ok, err := old.ExtendContext(ctx); !ok {
			return err // it ran out while we waited for ours
		}
		return work(ctx, h.Token()) // go on extending the old one, as you did before
	})
}

// inBothOfRedislock is the same for redislock.
func inBothOfRedislock(ctx context.Context, old *redislock.Lock, ours *mutex.Mutex, work work) error {
	defer old.Release(context.WithoutCancel(ctx))
	return ours.Do(ctx, func(ctx context.Context, h *coord.Hold) error {
		if err := old.Refresh(ctx, expiry, nil); err != nil {
			return err
		}
		return work(ctx, h.Token())
	})
}

var _ = ourRedisMutex

const expiry = time.Minute // of old locks, where none is to run out

func theirRedis(t *testing.T, c *servers.Cluster) *goredis.Client {
	client := goredis.NewClient(&goredis.Options{Addr: c.Addrs()[0]})
	t.Cleanup(func() { client.Close() })
	return client
}

// Two of the kind take no turns with ours, and do not disturb them either.
func TestRedisLocksAndOursDoNotSeeEachOther(t *testing.T) {
	cluster := servers.Redis(t, servers.Shared())
	ctx := within(t, time.Minute)
	their, ours := theirRedis(t, cluster), open(t, "Redis", cluster.Addrs())
	err := redsyncLock(ctx, their, func(ctx context.Context, _ coord.Token) error {
		if _, err := redislock.Obtain(ctx, their, "lock:orders", expiry, nil); !errors.Is(err, redislock.ErrNotObtained) {
			t.Errorf("redislock, while redsync has the key: %v", err)
		}
		h, err := mutex.New(ours, "lock:orders").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return h.Release()
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := redislockLock(ctx, their, func(context.Context, coord.Token) error { return nil }); err != nil {
		t.Error(err)
	}
}

// Old ones beside those that take both, and those beside new ones: two are never inside, and nobody waits in a circle.
func TestBothLocksExcludeOldAndNewOnRedis(t *testing.T) {
	cluster := servers.Redis(t, servers.Shared())
	their, client := theirRedis(t, cluster), open(t, "Redis", cluster.Addrs())
	theirs := func() *redsync.Mutex {
		return redsync.New(redsyncredis.NewPool(their)).NewMutex("old:redsync", redsync.WithExpiry(expiry),
			redsync.WithTries(1<<20), redsync.WithRetryDelay(2*time.Millisecond))
	}
	obtain := func(ctx context.Context) (*redislock.Lock, error) {
		return redislock.Obtain(ctx, their, "old:redislock", expiry, &redislock.Options{RetryStrategy: redislock.LinearBackoff(2 * time.Millisecond)})
	}
	after := func(ctx context.Context, work work) error { return under(ctx, client, work) }
	t.Run("redsync", func(t *testing.T) {
		before := func(ctx context.Context, work work) error {
			m := theirs()
			if err := m.LockContext(ctx); err != nil {
				return err
			}
			defer m.Unlock()
			return work(ctx, 0)
		}
		both := func(ctx context.Context, work work) error {
			return inBoth(ctx, theirs(), mutex.New(client, "orders"), work)
		}
		meet(t, before, both, before, both)
		meet(t, both, after, both, after)
	})
	t.Run("redislock", func(t *testing.T) {
		before := func(ctx context.Context, work work) error {
			lock, err := obtain(ctx)
			if err != nil {
				return err
			}
			defer lock.Release(ctx)
			return work(ctx, 0)
		}
		both := func(ctx context.Context, work work) error {
			lock, err := obtain(ctx)
			if err != nil {
				return err
			}
			return inBothOfRedislock(ctx, lock, mutex.New(client, "orders"), work)
		}
		meet(t, before, both, before, both)
		meet(t, both, after, both, after)
	})
}

// An old lock is not renewed while its holder waits for ours. So it is asked once more, and the work does not begin without it.
func TestAnOldLockThatRanOutMeanwhileIsNoticed(t *testing.T) {
	cluster := servers.Redis(t, servers.Shared())
	ctx := within(t, time.Minute)
	their, client := theirRedis(t, cluster), open(t, "Redis", cluster.Addrs())
	first, err := mutex.New(client, "short").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	old := redsync.New(redsyncredis.NewPool(their)).NewMutex("old:short", redsync.WithExpiry(time.Second), redsync.WithTries(1<<20), redsync.WithTimeoutFactor(1))
	came := make(chan error, 1)
	go func() {
		came <- inBoth(ctx, old, mutex.New(client, "short"), func(context.Context, coord.Token) error {
			t.Error("the work begins without the old lock")
			return nil
		})
	}()
	// Until it stands in our line; then until the old one has gone.
	for stand := 0; stand < 2; time.Sleep(5 * time.Millisecond) {
		nodes, err := client.Line(ctx, "short")
		if err != nil {
			t.Fatal(err)
		}
		stand = len(nodes)
	}
	for left := int64(1); left > 0; time.Sleep(5 * time.Millisecond) {
		if left, err = their.Exists(ctx, "old:short").Result(); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-came; err == nil {
		t.Error("no error")
	}
}
