// Package backend finds the service that the examples run on from a URL:
//
//	mem://                            in this process; nothing is needed
//	zk://host:2181,host:2181/chroot   ZooKeeper
//	etcd://host:2379,host:2379        etcd
package backend

import (
	"context"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/etcd"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/coord/zk"
)

// Connect makes a client, each with a session of its own.
type Connect func(ctx context.Context, opts ...coord.Option) (*coord.Client, error)

// FromArgs takes the URL from a program's arguments; without one it is mem://.
func FromArgs(args []string) (Connect, error) {
	if len(args) < 2 {
		return New("mem://")
	}
	return New(args[1])
}

// New returns how to connect to the service of a URL.
func New(url string) (Connect, error) {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return nil, fmt.Errorf("%q is no URL: use mem://, zk://host:port or etcd://host:port", url)
	}
	hosts, path, _ := strings.Cut(rest, "/")
	servers := strings.Split(hosts, ",")
	switch scheme {
	case "mem":
		service := mem.New()
		return func(_ context.Context, opts ...coord.Option) (*coord.Client, error) {
			return service.Client(opts...), nil
		}, nil
	case "zk":
		return func(ctx context.Context, opts ...coord.Option) (*coord.Client, error) {
			return zk.Connect(ctx, servers, zk.WithRoot("/"+path), zk.WithClient(opts...))
		}, nil
	case "etcd":
		return func(ctx context.Context, opts ...coord.Option) (*coord.Client, error) {
			return etcd.Connect(ctx, clientv3.Config{Endpoints: servers}, etcd.WithClient(opts...))
		}, nil
	}
	return nil, fmt.Errorf("%q: no service is called %q: use mem, zk or etcd", url, scheme)
}
