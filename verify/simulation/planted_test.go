//go:build planted

package simulation

import (
	"testing"

	"github.com/turnwise/turnwise/internal/planted"
)

// enough is how many seeds a bug may take to be noticed. Each is run with every recipe in both profiles.
const enough = 100

func TestPlanted(t *testing.T) {
	for _, bug := range planted.All {
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
