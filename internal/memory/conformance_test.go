package memory_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/internal/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	for _, profile := range []memory.Profile{memory.ZooKeeper, memory.Etcd} {
		t.Run(profile.String(), func(t *testing.T) {
			drivertest.Run(t, func(t testing.TB) *drivertest.Service { return serve(t, profile) })
		})
	}
}

func TestRecipes(t *testing.T) {
	for _, profile := range []memory.Profile{memory.ZooKeeper, memory.Etcd} {
		t.Run(profile.String(), func(t *testing.T) {
			drivertest.RunRecipes(t, func(t testing.TB) *drivertest.Service { return serve(t, profile) })
		})
	}
}

// ZooKeeper's two events tell all about a hand-off; etcd's needs one point read.
var budgets = map[memory.Profile]drivertest.Budget{
	memory.ZooKeeper: {
		Join:    drivertest.Cost{Writes: 1, Trips: 1},
		Leave:   drivertest.Cost{Writes: 1, Trips: 1},
		Handoff: drivertest.Cost{Events: 2},
	},
	memory.Etcd: {
		Join:    drivertest.Cost{Writes: 1, Trips: 1},
		Leave:   drivertest.Cost{Writes: 1, Trips: 1},
		Handoff: drivertest.Cost{Events: 1, Reads: 1, Trips: 1},
	},
}

func serve(t testing.TB, profile memory.Profile) *drivertest.Service {
	network := &pipes{profile: profile, links: make(map[string]*link)}
	service := memory.NewService(memory.Config{Profile: profile, TTL: 2 * time.Second, Network: network})
	t.Cleanup(service.Close)
	var links atomic.Int64
	return &drivertest.Service{
		TTL:   2 * time.Second,
		Grace: time.Second,
		Connect: func(t testing.TB) *drivertest.Link {
			return network.connect(t, service, fmt.Sprintf("link %d", links.Add(1)))
		},
		Stored: func(_ testing.TB, line string) (names []string) {
			for _, n := range service.Nodes(line) {
				names = append(names, n.ID)
			}
			return names
		},
		Remains: func(testing.TB) []string { return service.Names("") },
		Budget:  budgets[profile],
	}
}
