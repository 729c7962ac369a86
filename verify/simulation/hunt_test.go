package simulation

import (
	"flag"
	"slices"
	"testing"
)

var huntSeeds = flag.Uint64("sim.hunt", 0, "run so many seeds, each with every recipe but once, together, group and barrier, or with -sim.recipe, on all profiles or on -sim.profile, until something goes wrong")

// byName are recipes with bugs of their own, which take their time: a hunt has them only if asked to.
var byName = []string{"once", "together", "group", "barrier"}

// TestHunt is for package planted, which builds it with a bug. Unlike TestSim it runs everything with one seed before
// the next, and stops at the first seed that finds something.
func TestHunt(t *testing.T) {
	if *huntSeeds == 0 {
		t.Skip("-sim.hunt says for how long")
	}
	for seed := uint64(1); seed <= *huntSeeds; seed++ {
		for _, p := range profiles {
			if *profile != "" && *profile != p.String() {
				continue
			}
			for _, r := range Recipes {
				if *recipe != "" && *recipe != r || *recipe == "" && slices.Contains(byName, r) {
					continue
				}
				cfg := Config{Profile: p, Recipe: r, Faults: true, Seed: seed}
				if report := inBubble(t, cfg); report.Wrong != nil {
					t.Fatalf("seed %d, %s, on %v: %v", seed, r, p, report.Wrong)
				}
			}
		}
	}
}
