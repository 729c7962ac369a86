// Package drivertest is the conformance suite that every driver passes.
//
// The author of a driver fills in a [Service] and calls [Run] from a test:
//
//	func TestConformance(t *testing.T) {
//		drivertest.Run(t, func(t testing.TB) *drivertest.Service { … })
//	}
//
// There is a subtest for each obligation of package driver, and below it a scenario for each way of testing it. The harness
// makes the faults of the link and of the service; the suite itself knows no particular service. [RunRecipes] does the same
// for the recipes.
//
// What differs from service to service is in the driver's Strength, and the suite goes by it: where it denies something,
// the suite checks the opposite. Because of it the suite skips only checks that count the requests of waiters, if the
// waiters poll.
//
// With TURNWISE_LONG=1 in the environment the crowds are ten times as large. TURNWISE_PATIENCE=4s is for a driver that is
// meant to fail: the suite then waits 4 s instead of 20 s for what must happen however busy the machine is. Without it, a
// scenario is played again if it fails while the machine gives this process no time for a tenth of the TTL at a stretch.
package drivertest

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/internal/attempt"
)

// Run checks a driver. It calls start once, and all scenarios use the service that start returns.
func Run(t *testing.T, start func(t testing.TB) *Service) { run(t, start, obligations) }

func run(t *testing.T, start func(t testing.TB) *Service, all []obligation) {
	svc := start(t)
	if svc.Connect == nil || svc.TTL <= 0 || svc.Stored == nil {
		t.Fatal("drivertest: the harness must give Connect, TTL and Stored")
	}
	// Most scenarios mostly wait while the service does nothing, so several run at once, whatever -parallel says. Those that
	// count or time something run alone afterwards, in order.
	places := make(chan struct{}, 8)
	var crowd sync.WaitGroup
	for _, o := range all {
		crowd.Go(func() {
			t.Run(o.name, func(t *testing.T) { runCrowd(t, svc, o.scenarios, places) })
		})
	}
	crowd.Wait()
	t.Run("alone", func(t *testing.T) {
		for _, o := range all {
			for _, sc := range o.scenarios {
				if sc.alone {
					t.Run(o.name+"/"+sc.name, func(t *testing.T) { sc.show(t, svc) })
				}
			}
		}
	})
	t.Run("nothing remains at the service", func(t *testing.T) { nothingRemains(t, svc) })
	t.Run("at last", func(t *testing.T) {
		for _, o := range all {
			for _, sc := range o.scenarios {
				if sc.last {
					t.Run(o.name+"/"+sc.name, func(t *testing.T) { sc.show(t, svc) })
				}
			}
		}
	})
}

func runCrowd(t *testing.T, svc *Service, scenarios []scenario, places chan struct{}) {
	var all sync.WaitGroup
	for _, sc := range scenarios {
		if sc.alone || sc.last {
			continue
		}
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			t.Run(sc.name, func(t *testing.T) { sc.show(t, svc) })
		})
	}
	all.Wait()
}

// An obligation of a driver is a subtest, with the scenarios that test it.
type obligation struct {
	name      string
	scenarios []scenario
}

// A scenario tests one thing. It takes a testing.TB, so that the suite's own tests can see it fail.
type scenario struct {
	name  string
	run   func(s *scene)
	alone bool // it counts or times something that others would disturb
	last  bool // it disturbs all others
}

var obligations = []obligation{
	{"01 a join is exactly once", exactlyOnce},
	{"02 tokens rise for ever", tokensRise},
	{"03 a dead session's nodes go", deadSessions},
	{"04 no wake-up is lost", wakeUps},
	{"05 no herd", noHerd},
	{"06 a release removes one incarnation", releases},
	{"07 the deadline is never late", deadlines},
	{"08 every call ends with its context", promptness},
	{"09 removal is noticed", removals},
	{"10 only contenders of the line count", contenders},
	{"11 nothing leaks", leaks},
	{"12 a mark lets in the one behind and nobody else", marks},
	{"13 an amendment keeps the place", amendments},
	{"14 a look shows what stands in the way", sights},
	{"15 a try never waits", tries},
	{"16 round trips are within the budget", budgets},
	{"17 a watcher is told of the first in line", firsts},
	{"18 clients keep what they promise", clients},
	{"19 the strength is true", strengths},
	{"20 what somebody else writes to a node changes nothing", meddlings},
	{"21 a memo stays, and only who stands in the line writes it", memos},
}

// nothingRemains checks obligation 11 once more, when all scenarios are over.
func nothingRemains(t testing.TB, svc *Service) {
	if svc.Remains == nil {
		t.Skip("the harness cannot list what the service stores")
	}
	var left []string
	for limit := time.Now().Add(2*svc.grace() + 2*attempt.Patience()); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		if left = svc.Remains(t); len(left) == 0 {
			return
		}
	}
	t.Errorf("still stored with nobody in any line: %q", left)
}

// crowdSize is how many make up a crowd.
func crowdSize() int {
	if os.Getenv("TURNWISE_LONG") != "" {
		return 2000
	}
	return 200
}
