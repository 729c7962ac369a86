//go:build unix

package servers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/verify/servers"
)

func TestARedisForgetsUnlessItKeepsAFile(t *testing.T) {
	for _, scenario := range []struct {
		name string
		opts []servers.Option
		kept string
	}{
		{"without", nil, ""},
		{"fsync no", []servers.Option{servers.AppendOnly("no")}, "blue"},
		{"fsync everysec", []servers.Option{servers.AppendOnly("everysec")}, "blue"},
		{"fsync always", []servers.Option{servers.AppendOnly("always")}, "blue"},
	} {
		t.Run(scenario.name, func(t *testing.T) {
			m := servers.Redis(t, scenario.opts...).Member(0)
			redis(t, m, "SET", "colour", "blue")
			m.Kill()
			m.Restart(t)
			require.Equal(t, scenario.kept, redis(t, m, "GET", "colour"))
		})
	}
}

func TestARedisTakesItsSettingsAndAsksForItsPassword(t *testing.T) {
	m := servers.Redis(t, servers.Password("open sesame"), servers.Config("maxmemory-policy allkeys-lru")).Member(0)
	require.Equal(t, "redis://:open%20sesame@"+m.Addr(), m.URL())
	require.Contains(t, redis(t, m, "PING"), "NOAUTH")
	require.Contains(t, redis(t, m, "-a", "open sesame", "CONFIG", "GET", "maxmemory-policy"), "allkeys-lru")
}

func TestAReplicaOfRedisFollows(t *testing.T) {
	primary := servers.Redis(t, servers.Password("secret")).Member(0)
	replica := servers.Redis(t, servers.Password("secret"), servers.ReplicaOf(primary)).Member(0)
	redis(t, primary, "-a", "secret", "SET", "colour", "blue")
	require.Eventually(t, func() bool { return redis(t, replica, "-a", "secret", "GET", "colour") == "blue" },
		20*time.Second, 10*time.Millisecond)
	require.Contains(t, redis(t, replica, "-a", "secret", "SET", "colour", "red"), "READONLY")
}

func TestThreeRedisKnowNothingOfOneAnother(t *testing.T) {
	c := servers.Redis(t, servers.Members(3))
	redis(t, c.Member(0), "SET", "colour", "blue")
	require.Empty(t, redis(t, c.Member(1), "GET", "colour"))
	c.Member(0).Kill()
	require.Equal(t, "PONG", redis(t, c.Member(2), "PING"))
}

// redis runs redis-cli, and returns what it says.
func redis(t *testing.T, m *servers.Member, args ...string) string {
	t.Helper()
	return run(t, "redis/redis-cli", append([]string{"--no-auth-warning", "-h", "127.0.0.1", "-p", port(m)}, args...)...)
}
