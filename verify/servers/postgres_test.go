//go:build unix

package servers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/verify/servers"
)

func TestAPostgresThatIsKilledKeepsWhatWasCommitted(t *testing.T) {
	m := servers.Postgres(t).Member(0)
	require.Equal(t, "INSERT 0 1", psql(t, m.URL(), "create table t (colour text)", "insert into t values ('blue')"))
	addr := m.Addr()
	m.Kill()
	m.Restart(t)
	require.Equal(t, addr, m.Addr())
	require.Equal(t, "blue", psql(t, m.URL(), "select colour from t"))
	m.Terminate()
	m.Restart(t)
	require.Equal(t, "blue", psql(t, m.URL(), "select colour from t"))
}

func TestAPostgresTakesItsSettingsAndAsksForItsPassword(t *testing.T) {
	m := servers.Postgres(t, servers.Password("it's secret"), servers.Config("max_connections = 7")).Member(0)
	require.Equal(t, "postgres://postgres:it%27s%20secret@"+m.Addr()+"/postgres?sslmode=disable", m.URL())
	require.Equal(t, "7", psql(t, m.URL(), "show max_connections"))
	require.Equal(t, "on", psql(t, m.URL(), "show synchronous_commit"))
	require.Contains(t, psql(t, "postgres://postgres:wrong@"+m.Addr()+"/postgres", "select 1"), "password authentication failed")
}

func TestAReplicaOfPostgresFollows(t *testing.T) {
	primary := servers.Postgres(t, servers.Password("it's secret")).Member(0)
	replica := servers.Postgres(t, servers.Password("it's secret"), servers.ReplicaOf(primary)).Member(0)
	psql(t, primary.URL(), "create table t (colour text)", "insert into t values ('blue')")
	require.Eventually(t, func() bool { return psql(t, replica.URL(), "select colour from t") == "blue" },
		20*time.Second, 50*time.Millisecond)
	require.Contains(t, psql(t, replica.URL(), "insert into t values ('red')"), "read-only transaction")
}

func TestAPoolerInFrontOfPostgresHandsOutATransactionAtATime(t *testing.T) {
	pg := servers.Postgres(t, servers.Password("it's secret")).Member(0)
	pooler := servers.PgBouncer(t, pg, servers.Config("default_pool_size = 1")).Member(0)
	require.Equal(t, "2", psql(t, pooler.URL(), "select 1 + 1"))
	require.Equal(t, psql(t, pooler.URL(), "select pg_backend_pid()"), psql(t, pooler.URL(), "select pg_backend_pid()"))

	pg.Kill()
	pg.Restart(t)
	require.Eventually(t, func() bool { return psql(t, pooler.URL(), "select 1 + 1") == "2" }, 30*time.Second, 100*time.Millisecond)
	pooler.Kill()
	pooler.Restart(t)
	require.Equal(t, "2", psql(t, pooler.URL(), "select 1 + 1"))
}

func TestAKilledPostgresLeavesNoSharedMemory(t *testing.T) {
	key := ""
	t.Run("the test", func(t *testing.T) {
		m := servers.Postgres(t).Member(0)
		text, err := os.ReadFile(filepath.Join(m.Dir(), "data", "postmaster.pid"))
		require.NoError(t, err)
		key = strings.Fields(strings.Split(string(text), "\n")[6])[0]
		require.Contains(t, sharedMemory(t), key)
		m.Kill()
		require.Contains(t, sharedMemory(t), key)
		m.Restart(t)
	})
	if key == "" {
		t.SkipNow() // the test within has said why
	}
	require.NotContains(t, sharedMemory(t), key)
}

// sharedMemory returns the keys of the system's segments of shared memory.
func sharedMemory(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/sysvipc/shm")
	if err != nil {
		t.Skip(err)
	}
	var keys []string
	for line := range strings.Lines(string(text)) {
		keys = append(keys, strings.Fields(line)[0])
	}
	return keys
}

// psql runs each command by itself, and returns what the last one says.
func psql(t *testing.T, url string, commands ...string) string {
	t.Helper()
	said := ""
	for _, c := range commands {
		said = run(t, "postgres/psql", "-X", "-A", "-t", "-w", "-d", url, "-c", c)
	}
	return said
}
