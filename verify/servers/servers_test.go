//go:build unix

package servers_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/turnwise/turnwise/verify/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// services are the servers that form a cluster.
var services = []service{
	{"zookeeper", servers.ZooKeeper, nil},
	{"etcd", servers.Etcd, nil},
	{"etcd-3.4", servers.Etcd, []servers.Option{servers.OldEtcd()}},
}

// loners are those that stand alone.
var loners = []service{
	{"redis", servers.Redis, nil},
	{"postgres", servers.Postgres, nil},
	{"mariadb", servers.MariaDB, nil},
	{"memcached", servers.Memcached, nil},
}

type service struct {
	name  string
	start func(testing.TB, ...servers.Option) *servers.Cluster
	opts  []servers.Option
}

func forEach(t *testing.T, members int, scenario func(t *testing.T, start func(t testing.TB) *servers.Cluster)) {
	all := services
	if members == 1 {
		all = slices.Concat(services, loners)
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			scenario(t, func(t testing.TB) *servers.Cluster {
				began := time.Now()
				c := s.start(t, append(s.opts, servers.Members(members))...)
				t.Logf("%s with %d members serves after %v", c.Name(), members, time.Since(began).Round(time.Millisecond))
				return c
			})
		})
	}
}

func TestOneServerServesAndNobodyIsLeftAfterTheTest(t *testing.T) {
	forEach(t, 1, func(t *testing.T, start func(t testing.TB) *servers.Cluster) {
		before := goleak.IgnoreCurrent()
		var pid int
		t.Run("the test", func(t *testing.T) {
			c := start(t)
			pid = c.Member(0).Pid()
			require.NoError(t, syscall.Kill(pid, 0))
			require.Len(t, c.Addrs(), 1)
			require.NotEmpty(t, c.Version())
			require.Same(t, c.Member(0), c.Leader(t))
		})
		if pid == 0 {
			t.SkipNow() // the test within has said why
		}
		require.Equal(t, syscall.ESRCH, syscall.Kill(pid, 0))
		goleak.VerifyNone(t, before)
	})
}

func TestAKilledServerComesBackAtItsAddress(t *testing.T) {
	forEach(t, 1, func(t *testing.T, start func(t testing.TB) *servers.Cluster) {
		c := start(t)
		m := c.Member(0)
		addr, pid := m.Addr(), m.Pid()
		m.Kill()
		require.Equal(t, syscall.ESRCH, syscall.Kill(pid, 0))
		m.Restart(t)
		require.Equal(t, addr, m.Addr())
		require.NotEqual(t, pid, m.Pid())
	})
}

func TestAFrozenServerIsSilentUntilItThaws(t *testing.T) {
	c := servers.ZooKeeper(t)
	m := c.Member(0)
	m.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := m.FourLetter(ctx, "srvr")
	require.Error(t, err)
	m.Thaw()
	answer, err := m.FourLetter(t.Context(), "srvr")
	require.NoError(t, err)
	require.Contains(t, answer, "Mode: standalone")
}

func TestThreeServersElectAnotherLeader(t *testing.T) {
	forEach(t, 3, func(t *testing.T, start func(t testing.TB) *servers.Cluster) {
		c := start(t)
		require.Len(t, c.Addrs(), 3)
		first := c.Leader(t)

		first.Kill()
		began := time.Now()
		second := c.Leader(t)
		t.Logf("another leads %v after the kill", time.Since(began).Round(time.Millisecond))
		require.NotSame(t, first, second)

		first.Restart(t)
		require.NoError(t, c.Ready(t.Context()))

		second.Freeze()
		require.NotSame(t, second, c.Leader(t))
		second.Thaw()
		require.NoError(t, c.Ready(t.Context()))
	})
}

func TestAllServersCanGoDownAndComeBack(t *testing.T) {
	forEach(t, 3, func(t *testing.T, start func(t testing.TB) *servers.Cluster) {
		c := start(t)
		for _, m := range c.Members() {
			m.Kill()
		}
		for _, m := range c.Members() {
			require.NoError(t, m.Launch()) // Restart would wait for a majority that is not there yet
		}
		require.NoError(t, c.Ready(t.Context()))
		c.Leader(t)
	})
}

func TestEtcdEndsInGoodOrder(t *testing.T) {
	m := servers.Etcd(t).Member(0)
	m.Terminate()
	m.Restart(t)
}

func TestNumbersOfZooKeeper(t *testing.T) {
	m := servers.ZooKeeper(t, servers.Shared()).Member(0)
	before, err := m.Mntr(t.Context())
	require.NoError(t, err)
	require.Contains(t, before, "zk_packets_received")
	require.Contains(t, before, "zk_watch_count")
	require.Contains(t, before, "zk_ephemerals_count")
	require.Contains(t, before, "zk_outstanding_requests")
	_, err = m.FourLetter(t.Context(), "conf")
	require.NoError(t, err)
}

func TestNumbersOfEtcd(t *testing.T) {
	m := servers.Etcd(t, servers.Shared()).Member(0)
	numbers, err := m.Metrics(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1.0, numbers.Sum("etcd_server_is_leader"))
	require.Contains(t, numbers, "etcd_debugging_mvcc_watcher_total")
	require.Contains(t, numbers, "etcd_network_client_grpc_received_bytes_total")
	require.Zero(t, numbers.Calls("Txn"))
}

func TestASharedServerIsStartedOnce(t *testing.T) {
	require.Same(t, servers.ZooKeeper(t, servers.Shared()), servers.ZooKeeper(t, servers.Shared()))
	require.NotSame(t, servers.ZooKeeper(t, servers.Shared()), servers.ZooKeeper(t, servers.Shared(), servers.Tick(50*time.Millisecond)))
	goleak.VerifyNone(t, goleak.IgnoreAnyFunction(servers.Supervisor))
}

func TestScratchOfAProcessThatWasKilledIsRemovedByTheNext(t *testing.T) {
	mine, remove, err := servers.Scratch()
	require.NoError(t, err)
	defer remove()
	if os.Getenv("TURNWISE_TEST_SCRATCH") != "" {
		fmt.Println(mine)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	child := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	child.Env = append(os.Environ(), "TURNWISE_TEST_SCRATCH=1")
	said, err := child.Output()
	require.Error(t, err, "it was killed")
	left := strings.TrimSpace(string(said))
	require.DirExists(t, left)

	_, removeAnother, err := servers.Scratch()
	require.NoError(t, err)
	removeAnother()
	require.NoDirExists(t, left)
	require.DirExists(t, mine)
}

func TestConfigAndFlagsMayAskForPortsOfTheirOwn(t *testing.T) {
	dir := t.TempDir()
	zk := servers.ZooKeeper(t, servers.Dir(dir), servers.JavaOptions("-Dwhere={dir}"),
		servers.Config("metricsProvider.className=org.apache.zookeeper.metrics.impl.DefaultMetricsProvider", "tickTime=70", "x={port:extra}")).Member(0)
	cfg, err := os.ReadFile(filepath.Join(zk.Dir(), "zoo.cfg"))
	require.NoError(t, err)
	require.Contains(t, string(cfg), "x="+strconv.Itoa(zk.Port("extra")))
	answer, err := zk.FourLetter(t.Context(), "conf")
	require.NoError(t, err)
	require.Contains(t, answer, "tickTime=70")
	require.Contains(t, answer, dir)
}

func TestAServerThatRefusesItsConfigurationSaysWhy(t *testing.T) {
	servers.Need(t, "zookeeper")
	_, err := servers.StartZooKeeper(t.Context(), t.TempDir(), servers.Config("tickTime=never"))
	require.ErrorContains(t, err, "ended by itself")
	require.ErrorContains(t, err, "never", "the end of its log")

	_, err = servers.StartEtcd(t.Context(), t.TempDir(), servers.Flags("--no-such-flag"))
	require.ErrorContains(t, err, "no-such-flag")
}
