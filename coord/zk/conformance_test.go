package zk

import (
	"os"
	"testing"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// By default the test servers sweep empty lines five times a second, which can fall into step with a scenario.
var sweeping = servers.JavaOptions("-Dznode.container.checkIntervalMs=1100")

func TestConformance(t *testing.T) {
	drivertest.Run(t, func(t testing.TB) *drivertest.Service { return conformance(t) })
}

func TestConformanceOnThreeMembers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	drivertest.Run(t, func(t testing.TB) *drivertest.Service { return conformance(t, servers.Members(3)) })
}

// conformance has servers of its own, since they are restarted at the end.
func conformance(t testing.TB, opts ...servers.Option) *drivertest.Service {
	cluster := servers.ZooKeeper(t, append(opts, sweeping)...)
	svc := newHarness(t, cluster).service()
	svc.Restart = cluster.Restart
	if len(cluster.Members()) > 1 {
		svc.Failover = cluster.Failover
	}
	return svc
}
