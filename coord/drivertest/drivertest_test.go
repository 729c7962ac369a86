package drivertest

import "testing"

// TestModel shows that a driver without a flaw passes.
func TestModel(t *testing.T) {
	Run(t, modelHarness(flawless))
}
