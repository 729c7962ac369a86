package drivertest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnwise/turnwise/coord/driver"
)

// planted is what the goroutines that a flaw leaves behind wait for.
var planted = make(chan struct{})

func TestMain(m *testing.M) {
	code := m.Run()
	close(planted)
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

// TestModel shows that a driver without a flaw passes.
func TestModel(t *testing.T) {
	Run(t, modelHarness(flawless))
}

func TestModelRecipes(t *testing.T) {
	RunRecipes(t, modelHarness(flawless))
}

// TestModelsOfOtherStrength shows that a driver whose service promises something else passes, as long as its strength says so.
func TestModelsOfOtherStrength(t *testing.T) {
	for name, change := range map[string]func(s *driver.Strength){
		"forgets":             func(s *driver.Strength) { s.Restart = driver.Forgets },
		"forgets, tokens too": func(s *driver.Strength) { s.Restart, s.Tokens = driver.Forgets, driver.RiseWhileRemembered },
		"forgets openly":      func(s *driver.Strength) { s.Restart = driver.ForgetsOpenly },
	} {
		t.Run(name, func(t *testing.T) { run(t, modelOf(change), []obligation{{"19 the strength is true", strengths}}) })
	}
}

// Whatever ends a session, and however a waiter learns of it, all other obligations stay the same.

func byKernel(s *driver.Strength) { s.Death = driver.ByKernel }

func TestModelWhoseDeathsTheKernelTells(t *testing.T) { Run(t, modelOf(byKernel)) }

func TestModelWhoseDeathsTheKernelTellsRecipes(t *testing.T) { RunRecipes(t, modelOf(byKernel)) }

func TestModelWhoseWaitersPoll(t *testing.T) {
	Run(t, modelOf(func(s *driver.Strength) { s.WakeUp = driver.Polled }))
}

func TestModelOfBothDeaths(t *testing.T) {
	run(t, modelOf(func(s *driver.Strength) { s.Death = driver.ByTTL | driver.ByKernel }), []obligation{
		{"03 a dead session's nodes go", deadSessions},
		{"07 the deadline is never late", deadlines},
		{"19 the strength is true", strengths},
	})
}

// modelOf returns the harness for a model that is honest about what makes it different.
func modelOf(change func(s *driver.Strength)) func(t testing.TB) *Service {
	nature := modelStrength
	change(&nature)
	return modelHarnessAs(nature, nature, flawless)
}
