//go:build !race

package registers

import (
	"os"
	"strings"
	"testing"
)

func limit() int {
	if os.Getenv("TURNWISE_LONG") != "" {
		return 20_000_000
	}
	return 1_000_000
}

func TestEveryInterleaving(t *testing.T) {
	for name, cfg := range map[string]Config{
		"answers and notes are lost": {Processes: 3, Lost: 1, GiveUp: true},
		"twice":                      {Processes: 2, Lost: 2, GiveUp: true},
		"sessions end":               {Processes: 3, Lost: 1, Expire: true},
		"an operator removes one":    {Processes: 2, Lost: 2, Removed: 1, GiveUp: true},
		"three, and an operator":     {Processes: 3, Lost: 1, Removed: 1},
		"the line is deleted":        {Processes: 3, Lost: 1, Deleted: 2, GiveUp: true},
		"all of it":                  {Processes: 2, Lost: 2, Removed: 1, Deleted: 1, GiveUp: true, Expire: true},
	} {
		t.Run(name, func(t *testing.T) {
			r, whole := Search(cfg, limit())
			if r.Fault != "" {
				t.Fatal(r)
			}
			t.Logf("%d states, to the end: %v", r.States, whole)
			if !whole && os.Getenv("TURNWISE_LONG") != "" {
				t.Error("not walked to the end")
			}
		})
	}
}

func TestWhatIsPlantedIsFound(t *testing.T) {
	for _, p := range []struct {
		name  string
		cfg   Config
		fault string
	}{
		{"nothing is written after a swap whose outcome is open", Config{Processes: 2, Lost: 1, GiveUp: true, NoFence: true}, "stands in the line"},
		{"a version that counts", Config{Processes: 2, Lost: 1, CountedVersions: true}, "two hold"},
		{"what was told of a first try counts for the next one", Config{Processes: 3, Lost: 1, Removed: 1, FirstTryCounts: true}, "two hold"},
		{"notes are sent before the swap", Config{Processes: 2, Removed: 1, Lost: 1, ToldBefore: true}, "nothing will wake it"},
		{"a session is ended before its own deadline", Config{Processes: 2, ExpireFirst: true}, "two hold"},
		{"who is removed is not told", Config{Processes: 2, Removed: 1, RemovedUntold: true}, "waits for ever"},
		{"who is next is not told", Config{Processes: 2, NextUntold: true}, "nothing will wake it"},
		{"a line that is deleted leaves the epoch as it is", Config{Processes: 2, Deleted: 1, EpochStays: true}, "a token has come again"},
		{"an empty line is deleted at once", Config{Processes: 2, Lost: 1, Deleted: 1, GiveUp: true, DeletedAtOnce: true}, "a token has come again"},
	} {
		t.Run(p.name, func(t *testing.T) {
			r, _ := Search(p.cfg, limit())
			if r.Fault == "" || !strings.Contains(r.Fault, p.fault) {
				t.Fatalf("after %d states, want %q: %v", r.States, p.fault, r)
			}
			t.Logf("after %d states: %v", r.States, r)
		})
	}
}
