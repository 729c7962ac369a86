package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// modelHarness is the suite's harness for the model, with or without a flaw.
func modelHarness(f flaw) func(t testing.TB) *Service {
	nature, claimed := f.strengths()
	return modelHarnessAs(nature, claimed, f)
}

// modelHarnessAs is the harness for a model whose nature is not modelStrength.
func modelHarnessAs(nature, claimed driver.Strength, f flaw) func(t testing.TB) *Service {
	return func(t testing.TB) *Service {
		ttl, handoff := time.Second, Cost{Events: 1}
		if nature.WakeUp == driver.Polled { // hundreds of waiters keep a machine busy, and sessions have to be renewed all the same
			ttl, handoff = 3*time.Second, Cost{Reads: 1, Trips: 1}
		}
		svc := newModelService(ttl, nature, f)
		t.Cleanup(func() { close(svc.stop) })
		return &Service{
			TTL: svc.ttl,
			Connect: func(t testing.TB) *Link {
				l := NewFaultLink(FaultLinkConfig{})
				svc.mu.Lock()
				svc.links = append(svc.links, l)
				svc.mu.Unlock()
				d := newModelDriver(svc, l, claimed, f)
				t.Cleanup(func() {
					closeLink(d, l)
					d.die()
				})
				link := l.Link(d)
				link.Expire = func(t testing.TB, s driver.Session) { svc.end(s.(*modelLiveness).id) }
				link.Kill = d.die
				return link
			},
			Stored: func(t testing.TB, line string) []string { return svc.stored(line) },
			Remains: func(t testing.TB) []string {
				svc.mu.Lock()
				defer svc.mu.Unlock()
				var all []string
				for line, nodes := range svc.lines {
					for _, n := range nodes {
						all = append(all, line+": "+n.ID)
					}
				}
				return all
			},
			PlantForeign: func(t testing.TB, line string) {
				svc.plant(line)
				t.Cleanup(func() { svc.uproot(line) })
			},
			Meddle:  svc.meddle,
			Forget:  func(t testing.TB, line string) {},
			Restart: func(t testing.TB) { svc.restart() },
			Budget: Budget{
				Join:    Cost{Writes: 1, Trips: 1},
				Leave:   Cost{Writes: 1, Trips: 1},
				Handoff: handoff,
			},
		}
	}
}

func closeLink(d driver.Driver, l *FaultLink) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = d.Close(ctx)
	l.Close()
}

// broken is closed when the present connection breaks.
func (l *FaultLink) broken() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn.broken
}
