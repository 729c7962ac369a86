package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"time"

	gozk "github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/servers"
)

// stage holds the services that a work is measured on, each started when first needed.
type stage struct {
	onDisk bool

	mu    sync.Mutex
	ready map[Service]*service
}

// service is one running service, and how to look at it from outside.
type service struct {
	name     string
	addr     string
	requests func() (float64, error)                              // how many the server has had
	standing func(ctx context.Context, place string) (int, error) // how many nodes there are
	watches  func() (float64, error)
	close    func()
}

func (s *stage) service(ctx context.Context, name Service) (*service, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.ready[name]; found != nil {
		return found, nil
	}
	f, err := s.folder()
	if err != nil {
		return nil, err
	}
	var made *service
	switch name {
	case ZooKeeper:
		made, err = s.zooKeeper(ctx, f.path)
	case Etcd:
		made, err = s.etcd(ctx, f.path)
	default:
		made, err = s.store(ctx, name, f.path)
	}
	if err != nil {
		return nil, err
	}
	if s.ready == nil {
		s.ready = map[Service]*service{}
	}
	s.ready[name] = made
	return made, nil
}

func (s *stage) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.ready {
		one.close()
	}
}

// folder holds what is written while measuring; it is removed at the end.
type folder struct {
	path   string
	remove func()
}

var scratch = sync.OnceValues(func() (folder, error) {
	path, remove, err := servers.Scratch()
	return folder{path, remove}, err
})

var diskScratch = sync.OnceValues(func() (folder, error) {
	path, err := os.MkdirTemp("", "turnwise-bench-")
	return folder{path, func() { _ = os.RemoveAll(path) }}, err
})

func (s *stage) folder() (folder, error) {
	if s.onDisk {
		return diskScratch()
	}
	return scratch()
}

func (s *stage) options() []servers.Option {
	if s.onDisk {
		return []servers.Option{servers.Fsync()}
	}
	return nil
}

func (s *stage) zooKeeper(ctx context.Context, dir string) (*service, error) {
	// An empty directory stays as long as it does in production: otherwise the tests' sweeper would be measured.
	opts := append(s.options(), servers.Heap("1g"), servers.JavaOptions("-Dznode.container.checkIntervalMs=60000"))
	cluster, err := servers.StartZooKeeper(ctx, dir, opts...)
	if err != nil {
		return nil, err
	}
	admin, err := dialZooKeeper(ctx, Setting{Addr: cluster.Addrs()[0], Timeout: 30 * time.Second})
	if err != nil {
		cluster.Close()
		return nil, err
	}
	number := func(name string) func() (float64, error) {
		return func() (float64, error) {
			n, err := cluster.Member(0).Mntr(context.Background())
			return float64(n[name]), err
		}
	}
	return &service{
		name: cluster.Name(), addr: cluster.Addrs()[0],
		requests: number("zk_packets_received"), watches: number("zk_watch_count"),
		standing: func(_ context.Context, place string) (int, error) {
			_, stat, err := admin.Get(place)
			if errors.Is(err, gozk.ErrNoNode) {
				return 0, nil
			}
			if err != nil {
				return 0, err
			}
			return int(stat.NumChildren), nil
		},
		close: func() { admin.Close(); cluster.Close() },
	}, nil
}

func (s *stage) etcd(ctx context.Context, dir string) (*service, error) {
	cluster, err := servers.StartEtcd(ctx, dir, s.options()...)
	if err != nil {
		return nil, err
	}
	addr := cluster.Addrs()[0]
	admin, err := dialEtcd(Setting{Addr: addr})
	if err != nil {
		cluster.Close()
		return nil, err
	}
	number := func(name string) func() (float64, error) {
		return func() (float64, error) {
			all, err := cluster.Member(0).Metrics(context.Background())
			return all.Sum(name), err
		}
	}
	return &service{
		name: cluster.Name(), addr: addr,
		requests: number("grpc_server_msg_received_total"), watches: number("etcd_debugging_mvcc_watcher_total"),
		standing: func(ctx context.Context, place string) (int, error) {
			resp, err := admin.Get(ctx, place, clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err != nil {
				return 0, err
			}
			return int(resp.Count), nil
		},
		close: func() { admin.Close(); cluster.Close() },
	}, nil
}

// view is what a scenario may ask of its service.
type view struct {
	*service
	addr  string
	proxy *faultproxy.Proxy
}

type viewKey struct{}

// through sends a run through a proxy that counts bytes. The proxy slows the run down, so its times do not count.
func through(ctx context.Context, s *service) (context.Context, string, func(), error) {
	p, err := faultproxy.New(s.addr)
	if err != nil {
		return nil, "", nil, err
	}
	return context.WithValue(ctx, viewKey{}, &view{s, p.Addr(), p}), p.Addr(), p.Close, nil
}

func direct(ctx context.Context, s *service) context.Context {
	return context.WithValue(ctx, viewKey{}, &view{s, s.addr, nil})
}

func viewOf(ctx context.Context) *view { return ctx.Value(viewKey{}).(*view) }

func addrOf(ctx context.Context) string { return viewOf(ctx).addr }

func bytesOf(ctx context.Context) int64 {
	if p := viewOf(ctx).proxy; p != nil {
		return p.Bytes(faultproxy.ToServer) + p.Bytes(faultproxy.ToClient)
	}
	return 0
}

func standing(ctx context.Context, place string) (int, error) {
	return viewOf(ctx).standing(ctx, place)
}

var lineNumber = struct {
	sync.Mutex
	n int
}{}

// freshLine returns the name of a line that nobody has used.
func freshLine() string {
	lineNumber.Lock()
	defer lineNumber.Unlock()
	lineNumber.n++
	return "line" + strconv.Itoa(lineNumber.n)
}
