package etcd

import (
	"context"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestConformance(t *testing.T) {
	drivertest.Run(t, func(t testing.TB) *drivertest.Service {
		return conformance(t, servers.Etcd(t))
	})
}

func TestConformanceWithThreeMembers(t *testing.T) {
	if testing.Short() {
		t.Skip("one member will do")
	}
	drivertest.Run(t, func(t testing.TB) *drivertest.Service {
		return conformance(t, servers.Etcd(t, servers.Members(3)))
	})
}

func TestConformanceOnOldEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("the present version will do")
	}
	drivertest.Run(t, func(t testing.TB) *drivertest.Service {
		return conformance(t, servers.Etcd(t, servers.OldEtcd()))
	})
}

// conformance is the harness for etcd.
func conformance(t testing.TB, cluster *servers.Cluster) *drivertest.Service {
	const ttl = 3 * time.Second
	root := direct(t, cluster)
	names := layout{root: defaultRoot}
	keys := func(t testing.TB, prefix string) []string {
		t.Helper()
		got, err := root.Get(within(t, 20*time.Second), prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			t.Fatalf("list what is stored: %v", err)
		}
		var keys []string
		for _, kv := range got.Kvs {
			keys = append(keys, string(kv.Key))
		}
		return keys
	}
	failover := cluster.Failover
	if len(cluster.Members()) == 1 {
		failover = nil
	}
	return &drivertest.Service{
		Restart:  cluster.Restart,
		Failover: failover,

		TTL:   ttl,
		Grace: 1500 * time.Millisecond, // etcd looks for expired leases twice a second
		Connect: func(t testing.TB) *drivertest.Link {
			l := connectLink(t, cluster.Addrs()...)
			return &drivertest.Link{
				Driver:  l.service(t, WithTTL(ttl), WithLogger(drivertest.Logger(t))),
				Fate:    func(f drivertest.Fate) <-chan struct{} { return l.fate(f, changesNode).met },
				Freeze:  l.freeze,
				Cut:     l.cut,
				Delay:   l.delay,
				Traffic: l.counted,
				Expire: func(t testing.TB, s driver.Session) {
					ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
					defer cancel()
					if _, err := root.Revoke(ctx, s.(*session).lease); err != nil {
						t.Fatalf("revoke: %v", err)
					}
				},
			}
		},
		Stored:  func(t testing.TB, line string) []string { return keys(t, names.line(line)) },
		Remains: func(t testing.TB) []string { return keys(t, names.root) },
		PlantForeign: func(t testing.TB, line string) {
			prefix := names.line(line)
			for _, key := range []string{
				prefix, prefix + "!", prefix + "0", prefix + "lock", prefix + "lock/", prefix + "lock/1", prefix + "lock/1-", prefix + "lock/1-0",
				prefix + "lock/x-1", prefix + "lo.ck/1-1", prefix + "lock/1-1/1", prefix + "~", names.root + line, names.root + line + "/",
			} {
				t.Cleanup(func() { // first: what fails may be there all the same
					if _, err := root.Delete(within(t, 20*time.Second), key); err != nil {
						t.Errorf("remove what was planted: %v", err)
					}
				})
				if _, err := root.Put(within(t, 20*time.Second), key, "foreign"); err != nil {
					t.Fatalf("plant: %v", err)
				}
			}
		},
		Meddle: func(t testing.TB, line string) {
			ctx := within(t, 20*time.Second)
			there, err := root.Get(ctx, names.line(line), clientv3.WithPrefix())
			if err != nil {
				t.Fatalf("meddle: %v", err)
			}
			for _, kv := range there.Kvs {
				// Like a tool that takes care of the lease; docs/security.md tells of tools that do not.
				if _, err := root.Put(ctx, string(kv.Key), string(kv.Value)+"!", clientv3.WithIgnoreLease()); err != nil && !is(err, rpctypes.ErrKeyNotFound) {
					t.Fatalf("meddle: %v", err)
				}
			}
		},
		Budget: drivertest.Budget{
			Join:    drivertest.Cost{Writes: 1, Trips: 1},
			Leave:   drivertest.Cost{Writes: 1, Trips: 1},
			Handoff: drivertest.Cost{Reads: 1, Events: 1, Trips: 1},
		},
	}
}
