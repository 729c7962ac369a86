//go:build planted

package simulation

import (
	"testing"

	"github.com/turnwise/turnwise/internal/planted"
)

// enough is how many runs of each recipe and profile a bug may take to be noticed.
const enough = 1500

// elsewhere are the bugs that runs notice too seldom, and what notices them.
var elsewhere = map[planted.Bug]string{}

func TestPlanted(t *testing.T) {
	for _, bug := range planted.All {
		if where, ok := elsewhere[bug]; ok {
			t.Logf("%-70s noticed by %s", bug, where)
			continue
		}
		pull := planted.Plant(bug)
		seed, cfg, wrong := hunt(t)
		pull()
		if wrong == nil {
			t.Errorf("%-70s NOT noticed in %d runs", bug, enough*len(profiles)*len(Recipes))
			continue
		}
		t.Logf("%-70s seed %d, %v, %s: %v", bug, seed, cfg.Profile, cfg.Recipe, wrong)
	}
}

// hunt runs until something goes wrong.
func hunt(t *testing.T) (uint64, Config, error) {
	for seed := uint64(1); seed <= enough; seed++ {
		for _, p := range profiles {
			for _, r := range Recipes {
				cfg := Config{Profile: p, Recipe: r, Faults: true, Seed: seed}
				if report := inBubble(t, cfg); report.Wrong != nil {
					return seed, cfg, report.Wrong
				}
			}
		}
	}
	return 0, Config{}, nil
}
