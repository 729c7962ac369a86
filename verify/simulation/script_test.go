//go:build !race

package simulation

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	scriptText = flag.String("sim.script", "", "run this script only, with its trace")
	oneIn      = flag.Int("sim.part", 6, "which part of the single faults are tried: one in so many, and of those of a service that speaks its protocol one in several times as many")
	most       = flag.Int("sim.most", 5, "after how many failing scripts to stop")
	oneKind    = flag.String("sim.kind", "", "of single faults, try this kind only, at every step")
	pairs      = flag.Int("sim.pairs", 3000, "how many pairs of faults; 0: all")
)

func playScript(t *testing.T, sc Script, trace func(string)) (o Outcome) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { o = RunScript(sc, trace) })
	return o
}

// playAll runs scripts on all cores, and shows the first that fails.
func playAll(t *testing.T, scripts []Script) {
	t.Helper()
	began := time.Now()
	var next, ran, grants, failing atomic.Int64
	var all sync.WaitGroup
	var mu sync.Mutex
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(scripts) || failing.Load() > int64(*most) {
					return
				}
				o := playScript(t, scripts[i], nil)
				ran.Add(1)
				grants.Add(int64(o.Grants))
				if o.Wrong != nil {
					mu.Lock()
					if failing.Add(1) <= int64(*most)+1 {
						if o.Trace != nil {
							t.Log(strings.Join(o.Trace, "\n"))
						}
						t.Errorf("%v\nonce more: go test ./verify/simulation -run TestScript -v -sim.script=%q", o.Wrong, scripts[i])
					}
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d scripts, %d acquisitions in %v", ran.Load(), grants.Load(), time.Since(began).Round(time.Millisecond))
}

func TestScript(t *testing.T) {
	if *scriptText == "" {
		t.Skip("-sim.script names none")
	}
	sc, err := ParseScript(*scriptText)
	if err != nil {
		t.Fatal(err)
	}
	if o := playScript(t, sc, func(line string) { t.Log(line) }); o.Wrong != nil {
		t.Fatal(o.Wrong)
	}
}

// length returns how many parcels arrive when nothing breaks.
func length(t *testing.T, sc Script) int {
	o := playScript(t, sc, nil)
	if o.Wrong != nil || o.Grants == 0 {
		t.Fatalf("%v, without faults: %d grants, %v", sc, o.Grants, o.Wrong)
	}
	return len(o.Steps)
}

// singles returns all single faults at all steps.
func singles(t *testing.T, plays []string) []Script {
	var all []Script
	for _, p := range profiles {
		if *profile != "" && *profile != p.String() {
			continue
		}
		for _, play := range plays {
			if (play == "vigil" || play == "idler") && p != ZooKeeper {
				continue
			}
			n := length(t, Script{Profile: p, Play: play})
			for at := range n {
				for i, k := range p.kinds() {
					if *oneKind == "" && (at+i)%sampled(p) != 0 || *oneKind != "" && *oneKind != k.name {
						continue
					}
					all = append(all, Script{p, play, []Fault{{k, at}}})
				}
			}
		}
	}
	return all
}

// sampled returns n, if one in n single faults is tried.
func sampled(p Profile) int {
	switch {
	case *oneIn == 1:
	case p == ZooKeeper:
		return 5 * *oneIn / 2
	case p == Etcd:
		return 7 * *oneIn
	}
	return *oneIn
}

func TestEveryFaultAtEveryStep(t *testing.T) {
	playAll(t, singles(t, fullPlays))
}

func TestEveryPairOfFaults(t *testing.T) {
	lengths := make(map[string]int) // of plays without faults
	firsts := singles(t, shortPlays)
	seconds := func(one Script) int { // a fault adds steps
		plain := Script{Profile: one.Profile, Play: one.Play}
		key := fmt.Sprint(plain)
		if _, known := lengths[key]; !known {
			lengths[key] = length(t, plain)
		}
		return max(lengths[key]+10-one.Faults[0].At, 0) * len(one.Profile.kinds())
	}
	var total int
	ends := make([]int, len(firsts)) // where, among all pairs, those of each first fault end
	for i, one := range firsts {
		total += seconds(one)
		ends[i] = total
	}
	pair := func(n int) Script {
		i, _ := slices.BinarySearch(ends, n+1)
		one, kinds := firsts[i], firsts[i].Profile.kinds()
		n -= ends[i] - seconds(one)
		return Script{one.Profile, one.Play, []Fault{one.Faults[0], {kinds[n%len(kinds)], one.Faults[0].At + n/len(kinds)}}}
	}
	t.Logf("%d pairs", total)
	var all []Script
	for n := range total {
		if *pairs == 0 {
			all = append(all, pair(n))
		}
	}
	for r := rand.New(rand.NewPCG(1, 1)); len(all) < *pairs; {
		all = append(all, pair(r.IntN(total)))
	}
	playAll(t, all)
}

// What once failed is run again forever. See testdata/scripts.txt.
func TestWhatOnceFailed(t *testing.T) {
	f, err := os.Open("testdata/scripts.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []Script
	for lines := bufio.NewScanner(f); lines.Scan(); {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if strings.TrimSpace(text) == "" {
			continue
		}
		sc, err := ParseScript(text)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseScript(fmt.Sprint(sc)); err != nil || again.String() != sc.String() {
			t.Fatalf("%v reads as %v, %v", sc, again, err)
		}
		all = append(all, sc)
	}
	playAll(t, all)
}
