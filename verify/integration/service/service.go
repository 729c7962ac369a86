// Package service offers services in one shape, so that a test can be written once for all of them.
package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/etcd"
	"github.com/turnwise/turnwise/coord/zk"
	"github.com/turnwise/turnwise/verify/servers"
)

// Service is a way to start a service and reach it.
type Service struct {
	Name    string
	Start   func(t testing.TB, opts ...servers.Option) *servers.Cluster
	Connect func(ctx context.Context, addrs []string, ttl time.Duration, opts ...coord.Option) (*coord.Client, error)
}

// ZooKeeper and Etcd were made for coordination.
var (
	ZooKeeper = Service{"ZooKeeper", servers.ZooKeeper, connectZooKeeper}
	Etcd      = Service{"etcd", servers.Etcd, connectEtcd}
)

// Both lists the two services that were made for coordination.
var Both = []Service{ZooKeeper, Etcd}

// Stores are for tests of the link between a client and a single server. Their data outlive a restart.
var Stores = []Service{
	{"Redis", func(t testing.TB, opts ...servers.Option) *servers.Cluster {
		return servers.Redis(t, append(opts, servers.AppendOnly("always"))...)
	}, connectTo("redis://%s?longest-session=%v")},
	{"PostgreSQL", servers.Postgres, connectTo("postgres://postgres@%s/postgres?sslmode=disable&longest-session=%v")},
}

// Named returns the service with that name.
func Named(name string) Service {
	for _, s := range slices.Concat(Both, Stores) {
		if s.Name == name {
			return s
		}
	}
	panic("no service is called " + name)
}

func connectZooKeeper(ctx context.Context, addrs []string, ttl time.Duration, opts ...coord.Option) (*coord.Client, error) {
	return zk.Connect(ctx, addrs, zk.WithTTL(ttl), zk.WithClient(opts...))
}

func connectEtcd(ctx context.Context, addrs []string, ttl time.Duration, opts ...coord.Option) (*coord.Client, error) {
	cfg := clientv3.Config{Endpoints: addrs, Logger: zap.NewNop(), DialKeepAliveTime: 10 * time.Second}
	return etcd.Connect(ctx, cfg, etcd.WithTTL(ttl), etcd.WithClient(opts...))
}

func connectTo(url string) func(context.Context, []string, time.Duration, ...coord.Option) (*coord.Client, error) {
	return func(ctx context.Context, addrs []string, ttl time.Duration, opts ...coord.Option) (*coord.Client, error) {
		return backend.Open(ctx, fmt.Sprintf(url, strings.Join(addrs, ","), ttl), backend.WithTTL(ttl), backend.WithClient(opts...))
	}
}

// Client returns a connected client, which is closed when the test ends.
func (s Service) Client(t testing.TB, addrs []string, ttl time.Duration, opts ...coord.Option) *coord.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := s.Connect(ctx, addrs, ttl, opts...)
	if err != nil {
		t.Fatalf("connect to %s: %v", s.Name, err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// AwaitEmpty waits until nobody stands in any line. If ctx ends before that, something is left behind, and the test
// fails.
func AwaitEmpty(ctx context.Context, t testing.TB, c *coord.Client) {
	t.Helper()
	for {
		lines, err := c.Lines(ctx, "")
		if err == nil && len(lines) == 0 {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("left behind: %q (%v)", lines, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
