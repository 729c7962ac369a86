package redis

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storetest"
	"github.com/turnwise/turnwise/docs"
	"github.com/turnwise/turnwise/verify/servers"
)

// system is one Redis.
func system(t testing.TB, opts ...servers.Option) *storetest.System {
	m := servers.Redis(t, opts...).Member(0)
	return &storetest.System{
		TTL: 2 * time.Second,
		Open: func(t testing.TB) register.Store {
			s, err := Open(background(t), m.Addr())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		},
		Clock:   true,
		Limit:   maxValue,
		Restart: m.Restart,
		Forget: func(t testing.TB) {
			command(t, m.Addr(), "FLUSHALL")
		},
		Freeze: func(t testing.TB) func() {
			m.Freeze()
			return m.Thaw
		},
	}
}

// command sends a command, and waits only until it is done.
func command(t testing.TB, address, text string) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(text + "\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
}

// quorum is three Redis. As a whole they forget when all are emptied and somebody founds the group again.
func quorum(t testing.TB) *storetest.System {
	cluster := servers.Redis(t, servers.Members(3), servers.AppendOnly("always"))
	open := func(t testing.TB) register.Store {
		q, err := OpenQuorum(background(t), cluster.Addrs())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { q.Close() })
		return q
	}
	return &storetest.System{
		TTL:   2 * time.Second,
		Open:  open,
		Clock: true,
		Limit: maxValue,
		Restart: func(t testing.TB) {
			for _, m := range cluster.Members() {
				m.Restart(t)
			}
		},
		Forget: func(t testing.TB) {
			for _, m := range cluster.Members() {
				command(t, m.Addr(), "FLUSHALL")
			}
			open(t)
		},
		Freeze: func(t testing.TB) func() {
			for _, m := range cluster.Members() {
				m.Freeze()
			}
			return func() {
				for _, m := range cluster.Members() {
					m.Thaw()
				}
			}
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

func TestQuorumStore(t *testing.T) { storetest.Run(t, quorum) }

func TestDriver(t *testing.T) {
	drivertest.Run(t, func(t testing.TB) *drivertest.Service { return storetest.Service(t, system(t)) })
}

func TestQuorumDriver(t *testing.T) {
	drivertest.Run(t, func(t testing.TB) *drivertest.Service { return storetest.Service(t, quorum(t)) })
}

func TestRecipes(t *testing.T) {
	drivertest.RunRecipes(t, func(t testing.TB) *drivertest.Service { return patient(t, system(t)) })
}

func TestQuorumRecipes(t *testing.T) {
	drivertest.RunRecipes(t, func(t testing.TB) *drivertest.Service { return patient(t, quorum(t)) })
}

// patient is for recipes; see storetest.System.
func patient(t testing.TB, sys *storetest.System) *drivertest.Service {
	sys.TTL = 6 * time.Second
	return storetest.Service(t, sys)
}

// background ends with a test and all that it cleans up.
func background(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestTheTableOfEnginesHasThisOne(t *testing.T) {
	if row := docs.MissingInEngines("coord/redis", strength); row != "" {
		t.Errorf("engines.md lacks\n%s", row)
	}
}
