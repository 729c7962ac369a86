package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// failures are what our own recipes must never show. The peers are only counted.
func (v *verdict) failures(r []recovery) []string {
	var all []string
	for _, kind := range []struct {
		name  string
		flaws []flaw
	}{{"overlap at the server", v.overlaps}, {"stale write accepted", v.stale}, {"stuck", v.stuck}, {"node left", v.left}} {
		for _, f := range kind.flaws {
			if !isPeer(f.line) {
				all = append(all, kind.name+": "+f.String())
			}
		}
	}
	for _, b := range v.beliefs {
		if b.cause == "" && !isPeer(b.line) {
			all = append(all, "both believed: "+b.String())
		}
	}
	for _, f := range r {
		if f.nobody {
			all = append(all, fmt.Sprintf("nobody was granted in %v after the end of: %s", patience, f.fault))
		}
	}
	return all
}

func (b belief) String() string {
	return fmt.Sprintf("%s: worker %d (%s, granted at %v, believed until %v, %s) and worker %d (%s, granted at %v) for %v", b.line,
		b.first.worker, b.first.node, b.first.granted, b.first.believed, b.first.outcome, b.next.worker, b.next.node, b.next.granted, b.lasts)
}

func isPeer(line string) bool {
	return line == "zk.Lock" || line == "concurrency.Mutex" || line == "concurrency.Election"
}

// write prints everything, one table for the lines and one for the faults.
func (v *verdict) write(out io.Writer, faults []recovery) {
	fmt.Fprintf(out, "| line | granted | overlaps at the server | stale writes taken (refused) | both believed: paused | revoked early | unexplained | longest | stuck | nodes left |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, line := range slices.Sorted(maps.Keys(v.granted)) {
		count := func(all []flaw) (n int) {
			for _, f := range all {
				if f.line == line {
					n++
				}
			}
			return n
		}
		causes := map[string]int{}
		var longest time.Duration
		for _, b := range v.beliefs {
			if b.line == line {
				causes[b.cause]++
				longest = max(longest, b.lasts)
			}
		}
		fmt.Fprintf(out, "| %s | %d | %d | %d (%d) | %d | %d | %d | %v | %d | %d |\n", line, v.granted[line], count(v.overlaps), count(v.stale),
			v.refused[line], causes["the first was paused"], causes["early revocation by a server that was frozen"], causes[""],
			longest.Round(time.Millisecond/10), count(v.stuck), count(v.left))
	}
	fmt.Fprintf(out, "\n| fault | times | a grant again after the heal: median | p99 | max |\n|---|---|---|---|---|\n")
	byFault := map[string][]time.Duration{}
	for _, r := range faults {
		byFault[r.fault] = append(byFault[r.fault], r.again)
	}
	for _, name := range slices.Sorted(maps.Keys(byFault)) {
		times := byFault[name]
		slices.Sort(times)
		n := len(times)
		fmt.Fprintf(out, "| %s | %d | %v | %v | %v |\n", name, n, round(times[n/2]), round(times[(n*99)/100]), round(times[n-1]))
	}
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
