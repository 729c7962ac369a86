package drivertest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnwise/turnwise/coord/driver"
)

// planted is what goroutines that a flaw leaves behind wait for.
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

// TestModelsOfOtherStrength shows that a driver passes whose service promises something else, as long as its label says so.
func TestModelsOfOtherStrength(t *testing.T) {
	for name, change := range map[string]func(s *driver.Strength){
		"polled":         func(s *driver.Strength) { s.WakeUp = driver.Polled },
		"forgets":        func(s *driver.Strength) { s.Restart = driver.Forgets },
		"forgets all":    func(s *driver.Strength) { s.Restart, s.Tokens = driver.Forgets, driver.RiseWhileRemembered },
		"forgets openly": func(s *driver.Strength) { s.Restart = driver.ForgetsOpenly },
	} {
		t.Run(name, func(t *testing.T) {
			nature := modelStrength
			change(&nature)
			run(t, modelHarnessAs(nature, nature, flawless), []obligation{{"19 the label is true", labels}})
		})
	}
}

// TestModelWhoseDeathsTheKernelTells shows that all else holds where no TTL ends a session.
func TestModelWhoseDeathsTheKernelTells(t *testing.T) {
	nature := modelStrength
	nature.Death = driver.ByKernel
	Run(t, modelHarnessAs(nature, nature, flawless))
}

func TestModelWhoseDeathsTheKernelTellsRecipes(t *testing.T) {
	nature := modelStrength
	nature.Death = driver.ByKernel
	RunRecipes(t, modelHarnessAs(nature, nature, flawless))
}
