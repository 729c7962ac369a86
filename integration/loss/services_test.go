package loss

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/etcd"
	"github.com/turnwise/turnwise/coord/zk"
	"github.com/turnwise/turnwise/internal/servers"
)

var services = []service{
	{"ZooKeeper", servers.ZooKeeper, func(ctx context.Context, addrs []string) (*coord.Client, error) {
		return zk.Connect(ctx, addrs, zk.WithSessionTimeout(ttl))
	}},
	{"etcd", servers.Etcd, func(ctx context.Context, addrs []string) (*coord.Client, error) {
		return etcd.Connect(ctx, clientv3.Config{Endpoints: addrs, Logger: zap.NewNop()}, etcd.WithTTL(ttl))
	}},
}
