package migrating

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/zk"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/recipes/semaphore"
	"github.com/turnwise/turnwise/verify/servers"
)

func zkLock(ctx context.Context, conn *gozk.Conn, work work) error {
	lock := gozk.NewLock(conn, "/locks/orders", gozk.WorldACL(gozk.PermAll))
	if err := lock.Lock(); err != nil { // it takes no context
		return err
	}
	defer lock.Unlock()
	return work(ctx, 0) // nobody tells of a loss
}

func ourZkMutex(ctx context.Context, servers []string, work work) error {
	client, err := zk.Connect(ctx, servers, zk.WithRoot("/locks"))
	if err != nil {
		return err
	}
	defer client.Close()
	return mutex.New(client, "orders").Do(ctx, func(ctx context.Context, h *coord.Hold) error {
		return work(ctx, h.Token())
	})
}

func besideCurator(ctx context.Context, servers []string, work work) error {
	client, err := zk.Connect(ctx, servers, zk.WithRoot("/locks"), zk.WithNames(zk.Curator))
	if err != nil {
		return err
	}
	defer client.Close()
	return mutex.New(client, "orders").Do(ctx, func(ctx context.Context, h *coord.Hold) error {
		return work(ctx, h.Token())
	})
}

func theirConn(t *testing.T, c *servers.Cluster) *gozk.Conn {
	conn, _, err := gozk.Connect(c.Addrs(), ttl, gozk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func TestZkLockAndOursAsThePageShowsThem(t *testing.T) {
	cluster := servers.ZooKeeper(t, servers.Shared())
	conn := theirConn(t, cluster)
	// While it is there nobody makes or removes it, which their Lock does not bear.
	for _, dir := range []string{"/locks", "/locks/orders"} {
		if _, err := conn.Create(dir, nil, 0, gozk.WorldACL(gozk.PermAll)); err != nil && err != gozk.ErrNodeExists {
			t.Fatal(err)
		}
	}
	their := func(ctx context.Context, work work) error { return zkLock(ctx, conn, work) }
	our := func(ctx context.Context, work work) error { return ourZkMutex(ctx, cluster.Addrs(), work) }
	curators := func(ctx context.Context, work work) error { return besideCurator(ctx, cluster.Addrs(), work) }
	meet(t, their, our, curators, their)
}

// zk.Lock reads no names but those of locks, unless ours are like Curator's: it returns an error, and leaves its node behind.
func TestZkLockBesideOtherRecipesNeedsCuratorsNames(t *testing.T) {
	cluster := servers.ZooKeeper(t, servers.Shared())
	ctx := within(t, 2*time.Minute)
	take := map[string]func(c *coord.Client, line string) (*coord.Hold, error){
		"a reader": func(c *coord.Client, line string) (*coord.Hold, error) { return rwlock.New(c, line).RLock(ctx) },
		"a writer": func(c *coord.Client, line string) (*coord.Hold, error) { return rwlock.New(c, line).Lock(ctx) },
		"permits": func(c *coord.Client, line string) (*coord.Hold, error) {
			return semaphore.New(c, line, 3).Acquire(ctx, 1)
		},
		"a leader": func(c *coord.Client, line string) (*coord.Hold, error) {
			term, err := election.New(c, line).Campaign(ctx, nil)
			if err != nil {
				return nil, err
			}
			return term.Hold, nil
		},
	}
	for names, reads := range map[zk.Names]bool{zk.GoLock: false, zk.Curator: true} {
		root := "/beside" + map[bool]string{true: "curator", false: "golock"}[reads]
		c := connected(t)(zk.Connect(ctx, cluster.Addrs(), zk.WithRoot(root), zk.WithNames(names)))
		for what, take := range take {
			line := strings.ReplaceAll(what, " ", "-")
			ours, err := take(c, line)
			if err != nil {
				t.Fatal(err)
			}
			conn := theirConn(t, cluster) // what it leaves behind goes with it
			lock := gozk.NewLock(conn, root+"/"+line, gozk.WorldACL(gozk.PermAll))
			locked := make(chan error, 1)
			go func() { locked <- lock.Lock() }()
			for nodes := 0; nodes < 2; time.Sleep(5 * time.Millisecond) {
				all, err := c.Line(ctx, line)
				if err != nil {
					t.Fatal(err)
				}
				nodes = len(all)
			}
			if !reads {
				if err := <-locked; err == nil {
					t.Errorf("beside %s by the names of zk.Lock: it locks", what)
				}
				if all, err := c.Line(ctx, line); err != nil || len(all) != 2 {
					t.Errorf("beside %s: %d nodes stand, want ours and the one that was left behind (%v)", what, len(all), err)
				}
			}
			if err := ours.Release(); err != nil {
				t.Error(err)
			}
			if reads {
				if err := <-locked; err != nil {
					t.Errorf("beside %s by Curator's names: %v", what, err)
				}
			}
			conn.Close()
		}
	}
}

// Ours know whoever has any of the names, so the names can be changed one process after the other.
func TestProcessesWithDifferentNamesExcludeEachOther(t *testing.T) {
	cluster := servers.ZooKeeper(t, servers.Shared())
	var parties []party
	for _, names := range []zk.Names{zk.GoLock, zk.Curator, zk.Kazoo} {
		c := connected(t)(zk.Connect(t.Context(), cluster.Addrs(), zk.WithRoot("/names"), zk.WithNames(names)))
		parties = append(parties, func(ctx context.Context, work work) error { return under(ctx, c, work) })
	}
	meet(t, parties...)
}

// The root of ours is another than where old locks are, unless it is said.
func TestOnlyTheSameRootMeetsZkLock(t *testing.T) {
	cluster := servers.ZooKeeper(t, servers.Shared())
	ctx := within(t, time.Minute)
	lock := gozk.NewLock(theirConn(t, cluster), "/apart/unseen", gozk.WorldACL(gozk.PermAll))
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	try := func(opts ...zk.Option) error {
		h, err := mutex.New(connected(t)(zk.Connect(ctx, cluster.Addrs(), opts...)), "unseen").TryLock(ctx)
		if err == nil {
			err = h.Release()
		}
		return err
	}
	if err := try(); err != nil {
		t.Errorf("below the root that we have unless told otherwise: %v", err)
	}
	if err := try(zk.WithRoot("/apart")); !errors.Is(err, coord.ErrBusy) {
		t.Errorf("behind their lock: %v", err)
	}
}
