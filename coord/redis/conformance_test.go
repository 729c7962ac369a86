package redis

import (
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storetest"
	"github.com/turnwise/turnwise/docs"
	"github.com/turnwise/turnwise/verify/servers"
)

// system is one Redis.
func system(t testing.TB, opts ...servers.Option) *storetest.System {
	m := servers.Redis(t, opts...).Member(0)
	publish := redistest.Loud(t, m.Addr())
	return &storetest.System{
		TTL: 2 * time.Second,
		Open: func(t testing.TB) register.Store {
			s, err := Open(redistest.Within(t, time.Minute), m.Addr())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		},
		Ages:    true,
		Clock:   true,
		Tell:    func(_ testing.TB, topic string, note []byte) error { return publish(topic, note) },
		Limit:   server.MaxValue,
		Restart: m.Restart,
		Forget: func(t testing.TB) {
			redistest.CLI(t, m.Addr(), "FLUSHALL")
		},
		Lose: func(t testing.TB, key string) {
			redistest.CLI(t, m.Addr(), "DEL", defaultRoot+key)
		},
		Spoil: func(t testing.TB, key string) {
			redistest.CLI(t, m.Addr(), "SET", defaultRoot+key, "hello")
		},
		Freeze: func(t testing.TB) func() {
			m.Freeze()
			return m.Thaw
		},
	}
}

func TestStore(t *testing.T) {
	for _, disk := range []string{"", "always"} {
		t.Run("appendfsync "+disk, func(t *testing.T) {
			storetest.Run(t, func(t testing.TB) *storetest.System {
				if disk == "" {
					return system(t)
				}
				return system(t, servers.AppendOnly(disk))
			})
		})
	}
}

func TestDriver(t *testing.T) {
	drivertest.Run(t, func(t testing.TB) *drivertest.Service { return storetest.Service(t, system(t)) })
}

func TestRecipes(t *testing.T) {
	drivertest.RunRecipes(t, func(t testing.TB) *drivertest.Service { return redistest.Patient(t, system(t)) })
}

func TestTheTableOfEnginesHasOurRow(t *testing.T) {
	if row := docs.MissingInEngines("coord/redis", strength); row != "" {
		t.Errorf("docs/engines.md lacks\n%s", row)
	}
}
