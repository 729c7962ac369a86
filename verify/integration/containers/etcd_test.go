package containers

import (
	"context"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/etcd"
)

const etcdPort = "2379/tcp"

func TestEtcd(t *testing.T) {
	t.Run("driver", func(t *testing.T) { drivertest.Run(t, etcdService) })
	t.Run("recipes", func(t *testing.T) { drivertest.RunRecipes(t, etcdService) })
}

func etcdService(t testing.TB) *drivertest.Service {
	addr := start(t, etcdPort, testcontainers.ContainerRequest{
		// The etcd project's own images are in a registry that a name without a host does not reach, so the default is a
		// local one.
		Image: image("TURNWISE_ETCD_IMAGE", "turnwise-test/etcd"),
		Cmd: []string{
			"etcd", "--data-dir=/tmp/etcd", "--listen-client-urls=http://0.0.0.0:2379", "--advertise-client-urls=http://127.0.0.1:2379",
			"--heartbeat-interval=20", "--election-timeout=200",
		},
		WaitingFor: wait.ForHTTP("/health").WithPort(etcdPort),
	})
	admin := etcdClient(t, addr) // bypasses every proxy
	keys := func(t testing.TB, prefix string) (keys []string) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		got, err := admin.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			t.Fatalf("list %s: %v", prefix, err)
		}
		for _, kv := range got.Kvs {
			keys = append(keys, string(kv.Key))
		}
		return keys
	}
	return &drivertest.Service{
		TTL:     2 * time.Second,
		Grace:   1500 * time.Millisecond, // etcd looks for expired leases twice a second
		Connect: func(t testing.TB) *drivertest.Link { return connectEtcd(t, addr) },
		Stored:  func(t testing.TB, line string) []string { return keys(t, "turnwise/"+line+"//") },
		Remains: func(t testing.TB) []string { return keys(t, "turnwise/") },
	}
}

func connectEtcd(t testing.TB, addr string) *drivertest.Link {
	n := newNetwork(t, addr)
	d, err := etcd.New(etcdClient(t, n.proxy.Addr()), etcd.WithTTL(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.proxy.Heal()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = d.Close(ctx)
	})
	return &drivertest.Link{Driver: d, Freeze: n.freeze, Cut: n.cut, Delay: n.delayed}
}

func etcdClient(t testing.TB, addr string) *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{addr}, Logger: zap.NewNop(), DialKeepAliveTime: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}
