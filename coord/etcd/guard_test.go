package etcd_test

import (
	"context"
	"errors"
	"log"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/etcd"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// When a holder that was paused past the end of its hold writes, the service itself refuses the write.
func TestGuardRefusesTheWriteOfAStaleHolder(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	client, err := clientv3.New(clientv3.Config{Endpoints: cluster.Addrs(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	d, err := etcd.New(client)
	if err != nil {
		t.Fatal(err)
	}
	c := coord.NewClient(d)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	m := mutex.New(c, "guarded", mutex.Together(time.Minute)) // a node that others share is not passed on under a guard
	hold, err := m.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	guard, err := etcd.Guard(hold)
	if err != nil {
		t.Fatal(err)
	}
	write := func(value string) bool {
		t.Helper()
		done, err := client.Txn(ctx).If(guard).Then(clientv3.OpPut("data", value)).Commit()
		if err != nil {
			t.Fatal(err)
		}
		return done.Succeeded
	}
	if !write("while it holds") {
		t.Error("the holder's write was refused")
	}
	if err := c.Break(ctx, hold.Node()); err != nil { // as if its session had ended while it was paused
		t.Fatal(err)
	}
	if next, err := m.Lock(ctx); err != nil {
		t.Fatal(err)
	} else if write("too late") {
		t.Error("a stale holder's write went through")
	} else if g, err := etcd.Guard(next); err != nil {
		t.Error(err)
	} else if guard = g; !write("the next one's") {
		t.Error("the next holder's write was refused")
	} else if err := next.Release(); err != nil {
		t.Error(err)
	} else if write("after its release") {
		t.Error("a write went through after the release")
	} else if _, err := etcd.Guard(next); !errors.Is(err, coord.ErrReleased) {
		t.Errorf("guard of a released hold: %v", err)
	}
	if _, err := client.Delete(ctx, "data"); err != nil {
		t.Error(err)
	}
}

func TestGuardWantsAHoldOfThisService(t *testing.T) {
	service := mem.New()
	defer service.Close()
	c := service.Client()
	defer c.Close()
	hold, err := mutex.New(c, "elsewhere").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Release()
	if _, err := etcd.Guard(hold); err == nil || !strings.Contains(err.Error(), "not of this service") {
		t.Errorf("guard of a hold in memory: %v", err)
	}
	if _, err := etcd.Guard(nil); err == nil {
		t.Error("guard of nothing")
	}
}

func ExampleGuard() {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"localhost:2379"}, DialKeepAliveTime: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	d, err := etcd.New(client)
	if err != nil {
		log.Fatal(err)
	}
	locks := coord.NewClient(d)
	defer locks.Close()

	hold, err := mutex.New(locks, "orders/4711").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer hold.Release()
	guard, err := etcd.Guard(hold)
	if err != nil {
		log.Fatal(err)
	}
	// However long this process is paused before it gets here, only the holder writes.
	done, err := client.Txn(ctx).If(guard).Then(clientv3.OpPut("orders/4711", "paid")).Commit()
	if err == nil && !done.Succeeded {
		err = coord.ErrLost
	}
	if err != nil {
		log.Fatal(err)
	}
}
