package drivertest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
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
