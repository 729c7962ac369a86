package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/internal/memory"
)

func TestMemoryAsZooKeeper(t *testing.T) {
	Run(t, memoryHarness(memory.ZooKeeper))
}

func TestMemoryAsEtcd(t *testing.T) {
	Run(t, memoryHarness(memory.Etcd))
}

func TestMemoryRecipes(t *testing.T) {
	for _, p := range []memory.Profile{memory.ZooKeeper, memory.Etcd} {
		t.Run(p.String(), func(t *testing.T) { RunRecipes(t, memoryHarness(p)) })
	}
}

// memoryNetwork passes what the drivers of a link say and hear through that link.
type memoryNetwork struct {
	mu    sync.Mutex
	links map[string]*FaultLink // by the drivers' names
}

func (n *memoryNetwork) link(name string) *FaultLink {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.links[name]
}

func (n *memoryNetwork) Do(ctx context.Context, r memory.Request, apply func()) error {
	sort := Reading
	switch {
	case r.Upkeep:
		sort = Upkeep
	case r.Changes || r.Op == "remove":
		sort = Placing
	}
	return n.link(r.Link).Do(ctx, sort, 0, func() int { apply(); return 0 })
}

func (n *memoryNetwork) Tell(e memory.Event, deliver func()) { n.link(e.Link).Tell(0, deliver) }

func memoryHarness(profile memory.Profile) func(t testing.TB) *Service {
	return func(t testing.TB) *Service {
		network := &memoryNetwork{links: map[string]*FaultLink{}}
		svc := memory.NewService(memory.Config{Profile: profile, TTL: time.Second, Network: network})
		t.Cleanup(svc.Close)
		handoff := Cost{Events: 2}
		if profile == memory.Etcd {
			handoff = Cost{Events: 1, Reads: 1, Trips: 1}
		}
		return &Service{
			TTL: time.Second,
			Connect: func(t testing.TB) *Link {
				d := &memoryDriver{svc: svc, network: network, names: map[driver.Session]string{}}
				d.link = NewFaultLink(FaultLinkConfig{InOrder: profile == memory.ZooKeeper, Connected: d.reconnected})
				d.Driver, _ = d.another()
				t.Cleanup(func() { closeLink(d, d.link) })
				l := d.link.Link(d)
				l.Expire = d.expire
				return l
			},
			Stored: func(t testing.TB, line string) []string {
				var ids []string
				for _, n := range svc.Nodes(line) {
					ids = append(ids, n.ID)
				}
				return ids
			},
			Remains: func(t testing.TB) []string { return svc.Names("") },
			Forget:  func(t testing.TB, line string) {}, // the service keeps nothing of an empty line
			Budget: Budget{
				Join:    Cost{Writes: 1, Trips: 1},
				Leave:   Cost{Writes: 1, Trips: 1},
				Handoff: handoff,
			},
		}
	}
}

// memoryDriver gives each session a memory.Driver of its own, on one link: to end one session, the service must tell it
// from others by its driver.
type memoryDriver struct {
	driver.Driver
	svc     *memory.Service
	network *memoryNetwork
	link    *FaultLink

	mu    sync.Mutex
	all   []driver.Driver
	every []string
	names map[driver.Session]string
}

var memoryNames atomic.Int64

func (d *memoryDriver) another() (driver.Driver, string) {
	d.network.mu.Lock()
	name := fmt.Sprintf("driver %d", memoryNames.Add(1))
	d.network.links[name] = d.link
	d.network.mu.Unlock()
	next := d.svc.NewDriver(name)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all, d.every = append(d.all, next), append(d.every, name)
	return next, name
}

func (d *memoryDriver) Open(ctx context.Context) (driver.Session, error) {
	next, name := d.another()
	s, err := next.Open(ctx)
	if err == nil {
		d.mu.Lock()
		d.names[s] = name
		d.mu.Unlock()
	}
	return s, err
}

func (d *memoryDriver) Close(ctx context.Context) error {
	d.mu.Lock()
	all := slices.Clone(d.all)
	d.mu.Unlock()
	errs := make([]error, len(all))
	var closing sync.WaitGroup
	for i, one := range all {
		closing.Go(func() { errs[i] = one.Close(ctx) })
	}
	closing.Wait()
	return errors.Join(errs...)
}

func (d *memoryDriver) expire(t testing.TB, s driver.Session) {
	d.mu.Lock()
	name := d.names[s]
	d.mu.Unlock()
	d.svc.ExpireLink(name)
}

func (d *memoryDriver) reconnected() {
	d.mu.Lock()
	every := slices.Clone(d.every)
	d.mu.Unlock()
	for _, name := range every {
		d.svc.Reconnect(name)
	}
}
