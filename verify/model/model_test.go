//go:build !race

package model

import (
	"os"
	"strings"
	"testing"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/verify/model/walk"
)

// families returns every line of n contenders out of some kinds.
func families(n int, kinds ...string) (all [][]string) {
	if n == 0 {
		return [][]string{nil}
	}
	for _, rest := range families(n-1, kinds...) {
		for _, k := range kinds {
			all = append(all, append(append([]string(nil), rest...), k))
		}
	}
	return all
}

func limit() int {
	if os.Getenv("TURNWISE_LONG") != "" {
		return 20_000_000
	}
	return 1_500_000
}

func show(t *testing.T, kinds []string, r walk.Result) {
	t.Helper()
	t.Fatalf("%v: %v", kinds, r)
}

func TestEveryInterleavingOfTheRulesThatShip(t *testing.T) {
	for _, f := range []struct {
		name  string
		kinds [][]string
		cfg   Config
	}{
		{"mutex", families(3, "lock"), Config{GiveUp: true, Expire: true, Remove: true, Reconnect: true}},
		{"election, a leader proclaims", families(3, "lead"), Config{GiveUp: true, Expire: true, Remove: true, Amend: true}},
		{"rwlock", families(3, "R", "W"), Config{GiveUp: true, Remove: true, Reconnect: true}},
		{"rwlock, a writer downgrades", families(3, "R", "W"), Config{GiveUp: true, Expire: true, Downgrade: true}},
		{"semaphore of 2", families(3, "S1of2", "S2of2"), Config{GiveUp: true, Expire: true}},
		{"semaphore of 3", families(3, "S1of3", "S2of3", "S3of3"), Config{GiveUp: true}},
		{"semaphore that rolls from 2 to 3", families(3, "S1of2", "S1of3", "S2of3"), Config{GiveUp: true, Expire: true}},
		{"semaphore of 2, four", families(4, "S1of2", "S2of2"), Config{}},
		{"semaphore of 2 as one of many", families(3, "Q1of2", "Q2of2"), Config{GiveUp: true, Expire: true}},
		{"semaphore of 2 as one of many, four", families(4, "Q1of2", "Q2of2"), Config{}},
		{"semaphore that rolls from few to many", families(4, "S1of2", "Q1of2"), Config{}},
		{"recipes on one line", families(3, "lock", "R", "S1of2"), Config{GiveUp: true}},
		{"mutex, four", families(4, "lock"), Config{GiveUp: true}},
	} {
		t.Run(f.name, func(t *testing.T) {
			states, cut := 0, 0
			for _, kinds := range f.kinds {
				cfg := f.cfg
				cfg.Kinds = kinds
				r, whole := Search(cfg, limit())
				if r.Fault != "" {
					show(t, kinds, r)
				}
				states += r.States
				if !whole {
					cut++
				}
			}
			t.Logf("%d lines, %d states, %d not walked to the end", len(f.kinds), states, cut)
			if cut > 0 && os.Getenv("TURNWISE_LONG") != "" {
				t.Errorf("%d lines were not walked to the end", cut)
			}
		})
	}
}

func TestWhatIsPlantedIsFound(t *testing.T) {
	nearest := func(_ driver.Node, ahead []driver.Node) []driver.Node {
		if len(ahead) > 0 && ahead[len(ahead)-1].Kind == rules.Writer {
			return ahead[len(ahead)-1:]
		}
		return nil
	}
	tight := func(me driver.Node, ahead []driver.Node) []driver.Node {
		if wait := rules.Weighted(me, ahead); len(wait) > 1 {
			return wait[1:] // one too few
		} else {
			return wait
		}
	}
	generous := func(me driver.Node, ahead []driver.Node) []driver.Node {
		if len(ahead) > 0 {
			return rules.Weighted(me, ahead[1:])
		}
		return nil
	}
	for _, p := range []struct {
		name  string
		kinds [][]string
		cfg   Config
		fault string
	}{
		{"every holder leaves with the mark", families(3, "R", "W"), Config{EveryHolderMarks: true}, "two hold"},
		{"the downgrade leaves with the mark", families(3, "R", "W"), Config{Downgrade: true, DowngradeMarks: true}, "two hold"},
		{"any change is taken for the mark", families(3, "lead"), Config{Amend: true, AnyChangeIsMark: true}, "two hold"},
		{"the own node is not looked at last", families(3, "lock"), Config{Remove: true, OwnNodeLast: true}, "own node"},
		{"the service expires before the client", families(3, "lock"), Config{ExpireFirst: true}, "two hold"},
		{"a look older than the own join", families(2, "lock"), Config{StaleJoin: true}, "two hold"},
		{"a reader looks at the nearest only", families(3, "R", "W"), Config{WaitFor: map[string]rules.WaitFor{"R": nearest}}, "two hold"},
		{"a weight set one too small", families(4, "S1of2"), Config{WaitFor: map[string]rules.WaitFor{"S1of2": tight}}, "nothing will wake"},
		{"a grant that is not announced", families(4, "Q1of2"), Config{GrantedSilently: true}, "nothing will wake"},
		{"a grant by a look in which others had joined", families(3, "Q1of2", "Q2of2"), Config{GiveUp: true, BehindOverlooked: true}, "nothing will wake"},
		{"a semaphore that overlooks one", families(3, "S1of2"), Config{WaitFor: map[string]rules.WaitFor{"S1of2": generous}}, "too many permits"},
	} {
		t.Run(p.name, func(t *testing.T) {
			states := 0
			for _, kinds := range p.kinds {
				p.cfg.Kinds = kinds
				r, _ := Search(p.cfg, limit())
				states += r.States
				if strings.Contains(r.Fault, p.fault) {
					t.Logf("found in %v after %d states: %s", kinds, states, r.Fault)
					return
				}
			}
			t.Errorf("not found in %d states", states)
		})
	}
}
