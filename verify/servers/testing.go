package servers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// ZooKeeper starts ZooKeeper for the test, and ends it with the test.
func ZooKeeper(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	return forTest(t, "ZooKeeper", startZooKeeper, configure(opts))
}

// Etcd starts etcd for the test, and ends it with the test.
func Etcd(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	return forTest(t, "etcd", startEtcd, configure(opts))
}

// Redis starts Redis for the test, and ends it with the test.
func Redis(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	return forTest(t, "Redis", startRedis, configure(opts))
}

// Postgres starts PostgreSQL for the test, and ends it with the test. Its user and its database are called postgres.
func Postgres(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	return forTest(t, "PostgreSQL", startPostgres, configure(opts))
}

// MariaDB starts MariaDB for the test, and ends it with the test. Its user is root, its database turnwise.
func MariaDB(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	return forTest(t, "MariaDB", startMariaDB, configure(opts))
}

// Memcached starts memcached for the test, and ends it with the test.
func Memcached(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	return forTest(t, "memcached", startMemcached, configure(opts))
}

// NATS starts NATS with JetStream for the test, and ends it with the test.
func NATS(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	return forTest(t, "NATS", startNATS, configure(opts))
}

// Kube starts Kubernetes' etcd and API server for the test, and ends them with the test. That takes minutes in all, so the test
// is skipped unless TURNWISE_KUBE=1 is set, as `make test-kube` does.
func Kube(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	if os.Getenv("TURNWISE_KUBE") != "1" {
		t.Skip("servers: `make test-kube` runs what needs Kubernetes' API server")
	}
	return forTest(t, "Kubernetes", startKube, configure(opts))
}

// Leader is FindLeader for tests.
func (c *Cluster) Leader(t testing.TB) *Member {
	t.Helper()
	m, err := c.FindLeader(t.Context())
	if err != nil {
		t.Fatalf("servers: %v", err)
	}
	return m
}

// Restart kills the server if it runs, starts it on the same data, and waits until it serves.
func (m *Member) Restart(t testing.TB) {
	t.Helper()
	m.Kill()
	if err := m.Start(t.Context()); err != nil {
		t.Fatalf("servers: restart: %v", err)
	}
}

// KeepDisk copies the server's data, for PutBackDisk. It stops the server for a moment.
func (m *Member) KeepDisk(t testing.TB) {
	t.Helper()
	if err := m.SaveDisk(t.Context()); err != nil {
		t.Fatalf("servers: %v", err)
	}
}

// PutBackDisk puts the server's data back to what KeepDisk has copied, without what was written since, as a snapshot of a
// virtual machine does.
func (m *Member) PutBackDisk(t testing.TB) {
	t.Helper()
	if err := m.RestoreDisk(t.Context()); err != nil {
		t.Fatalf("servers: %v", err)
	}
}

// Restart kills all servers that run, starts all on the same data, and waits until they serve.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	for _, m := range c.members {
		m.Kill()
	}
	c.launchAll(t)
}

// Failover kills the leader, waits until another member leads, and brings the old one back as a follower.
func (c *Cluster) Failover(t testing.TB) {
	t.Helper()
	c.Leader(t).Kill()
	c.Leader(t)
	c.launchAll(t)
}

func (c *Cluster) launchAll(t testing.TB) {
	t.Helper()
	for _, m := range c.members {
		if err := m.Launch(); err != nil {
			t.Fatalf("servers: %v", err)
		}
	}
	if err := c.Ready(t.Context()); err != nil {
		t.Fatalf("servers: %v", err)
	}
}

// Need returns the path of something that `make deps` fetches (see [Find]), or skips the test.
func Need(t testing.TB, name string) string {
	t.Helper()
	path, err := Find(name)
	if err != nil {
		skip(t, err)
	}
	return path
}

// NeedJava returns the path of [Java], or skips the test as Need does.
func NeedJava(t testing.TB) string {
	t.Helper()
	path, err := Java()
	if err != nil {
		skip(t, err)
	}
	return path
}

// NeedProgram returns the path of a program that the machine itself must have, or skips the test as Need does. No server is
// one of these: those come from [Folder].
func NeedProgram(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		skip(t, fmt.Errorf("%s is %w on this machine", name, ErrNotInstalled))
	}
	return path
}

// ScratchFor is [Scratch] for a test; the folder is removed with it.
func ScratchFor(t testing.TB) string {
	t.Helper()
	dir, remove, err := Scratch()
	if err != nil {
		t.Fatalf("servers: %v", err)
	}
	t.Cleanup(remove)
	return dir
}

// MostlyWaiting lets six tests that are [BesideOthers] run at once with -short, however few processors there are. TestMain calls it before
// [Main], where tests mostly wait while their servers do nothing.
func MostlyWaiting() {
	flag.Parse()
	if !testing.Short() {
		return
	}
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
}

// BesideOthers lets a test run in parallel with -short. Without it other packages may have their tests run at the same time, and some of
// those count on an answer within a second.
func BesideOthers(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Parallel()
	}
}

// Main runs the tests of a package in [Surroundings] that are the same everywhere. They may share servers, which Main then
// ends. It fails if goroutines are left. TestMain calls it.
func Main(m *testing.M) int {
	remove, err := Surroundings()
	if err != nil {
		fmt.Fprintln(os.Stderr, "servers:", err)
		return 1
	}
	defer remove()
	shared.on = true
	code := m.Run()
	shared.close()
	if code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, "goroutines stay:", err)
		return 1
	}
	return 0
}

type starter func(context.Context, string, config) (*Cluster, error)

func forTest(t testing.TB, name string, start starter, cfg config) *Cluster {
	t.Helper()
	var c *Cluster
	var err error
	switch {
	case cfg.shared && !shared.on:
		t.Fatal("servers: a shared server needs func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }")
	case cfg.shared:
		c, err = shared.get(name, start, cfg)
	default:
		if cfg.dir == "" {
			cfg.dir = ScratchFor(t)
		}
		if c, err = start(t.Context(), cfg.dir, cfg); err == nil {
			t.Cleanup(c.Close)
		}
	}
	if errors.Is(err, ErrNotInstalled) {
		skip(t, err)
	}
	if err != nil {
		t.Fatalf("servers: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("servers: %s\n%s", c.Name(), c.logTails())
		}
	})
	if _, before := announced.LoadOrStore(c.Name(), true); !before {
		t.Logf("servers: testing against %s", c.Name())
	}
	return c
}

// announced holds what has been said already: once for each test binary.
var announced sync.Map

// skip skips the test if something is not there. Something else in its place is a failure.
func skip(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("TURNWISE_REQUIRE_SERVERS") == "1" || !errors.Is(err, ErrNotInstalled) {
		t.Fatalf("servers: %v", err)
	}
	t.Skipf("servers: %v", err)
}

var shared sharedClusters

// sharedClusters are the shared clusters of one test binary, by the options they were asked for with.
type sharedClusters struct {
	on bool

	mu       sync.Mutex
	dir      string
	remove   func() // dir and what is in it
	clusters map[string]*Cluster
}

func (s *sharedClusters) get(name string, start starter, cfg config) (*Cluster, error) {
	key := fmt.Sprintf("%s %+v", name, cfg)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.clusters[key]; c != nil {
		return c, nil
	}
	if s.dir == "" {
		dir, remove, err := Scratch()
		if err != nil {
			return nil, err
		}
		s.dir, s.remove, s.clusters = dir, remove, map[string]*Cluster{}
	}
	dir := cfg.dir
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp(s.dir, ""); err != nil {
			return nil, err
		}
	}
	c, err := start(context.Background(), dir, cfg)
	if err == nil {
		s.clusters[key] = c
	}
	return c, err
}

func (s *sharedClusters) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clusters {
		c.Close()
	}
	if s.dir != "" {
		s.remove()
	}
}
