package kube

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storetest"
	"github.com/turnwise/turnwise/verify/servers"
)

// as are the options of a user of a cluster, at one of its API servers.
func as(t testing.TB, c *servers.Cluster, server int, token string) []Option {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []Option{WithServer(c.Member(server).URL()), WithTokenFile(file), WithCAFile(c.KubeCA())}
}

// kubernetes is a system of one API server, whose stores have no more rights than the documentation asks for.
func kubernetes(t testing.TB) *storetest.System {
	c := servers.Kube(t)
	allow(t, c, "one", allVerbs...)
	m := c.Member(0)
	return &storetest.System{
		Limit: maxValue,
		TTL:   3 * time.Second,
		Open: func(t testing.TB) register.Store {
			return opened(t, append(as(t, c, 0, servers.KubeToken("one")), WithLongestTTL(time.Second))...)
		},
		Spoil: func(t testing.TB, key string) { spoil(t, opened(t, as(t, c, 0, servers.KubeToken("one"))...), key) },
		Restart: func(t testing.TB) {
			m.Kill()
			c.Below().Restart(t)
			m.Restart(t)
		},
		Freeze: func(testing.TB) (thaw func()) { m.Freeze(); return m.Thaw },
	}
}

func TestStore(t *testing.T) { storetest.Run(t, kubernetes) }

// service is a system of two API servers, of which one is killed in a fail-over.
func service(t testing.TB) *drivertest.Service {
	c := servers.Kube(t, servers.Members(2))
	b := balance(t, c.Addrs()[0])
	serving := 0
	return storetest.Service(t, &storetest.System{
		Limit: maxValue,
		TTL:   3 * time.Second,
		Open: func(t testing.TB) register.Store {
			return opened(t, append(behind(t, b, c), WithLongestTTL(time.Second))...)
		},
		Restart: func(t testing.TB) {
			c.Member(serving).Kill()
			c.Below().Restart(t)
			c.Member(serving).Restart(t)
		},
		Failover: func(t testing.TB) {
			c.Member(serving).Kill()
			serving = 1 - serving
			b.lead(c.Addrs()[serving])
			c.Member(1 - serving).Restart(t)
		},
	})
}

func TestConformance(t *testing.T) { drivertest.Run(t, service) }

func TestRecipes(t *testing.T) {
	drivertest.RunRecipes(t, func(t testing.TB) *drivertest.Service {
		sys := kubernetes(t)
		sys.TTL = 6 * time.Second
		return storetest.Service(t, sys)
	})
}
