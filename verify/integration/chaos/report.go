package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// failures are what our own recipes must never show. The peers are only counted.
func (v *verdict) failures(r []recovery) []string {
	var all []string
	for _, kind := range []struct {
		name  string
		flaws []flaw
	}{{"overlap at the server", v.overlaps}, {"stale write accepted", v.stale}, {"slot run twice", v.repeated}, {"rounds of a barrier", v.mixed}, {"view of a group", v.odd}, {"stuck", v.stuck}, {"node left", v.left}} {
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
	for _, f := range v.audit.Wrong {
		if !v.isExplained(f.Line) {
			all = append(all, "the audit of the traces: "+f.String())
		}
	}
	for _, r := range v.readings {
		if r.result == porcupine.Illegal { // what takes too long to be checked, on a slow machine, shows nothing either way
			all = append(all, fmt.Sprintf("the history of %s, %d steps: %s%s", r.line, r.length, r.result, r.broken))
		}
	}
	for _, f := range r {
		if f.nobody {
			all = append(all, "nobody was granted for long after the end of: "+f.fault)
		}
	}
	return all
}

func (b belief) String() string {
	return fmt.Sprintf("%s: worker %d (%s, granted at %v, believed until %v, %s) and worker %d (%s, granted at %v) for %v", b.line,
		b.first.worker, b.first.node, b.first.granted, b.first.believed, b.first.outcome, b.next.worker, b.next.node, b.next.granted, b.lasts)
}

func isPeer(line string) bool {
	switch line {
	case "zk.Lock", "concurrency.Mutex", "concurrency.Election",
		"redsync", "rueidislock", "pg_advisory_lock", "SELECT FOR UPDATE", "GET_LOCK", "flock":
		return true
	}
	return false
}

// write prints everything, one table for the lines and one for the faults.
func (v *verdict) write(out io.Writer, faults []recovery) {
	server, flaws := "overlaps at the server", v.overlaps
	if v.unseen {
		server = "wrong by the audit"
		for _, f := range v.audit.Wrong {
			flaws = append(flaws, flaw{line: f.Line, text: f.Text})
		}
	}
	fmt.Fprintf(out, "| line | granted | %s | stale writes taken (refused) | both believed: paused | revoked early | unexplained | stuck | nodes left |\n|---|---|---|---|---|---|---|---|---|\n", server)
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
		for _, b := range v.beliefs {
			if b.line == line {
				causes[b.cause]++
			}
		}
		given, stale := fmt.Sprint(count(flaws)), fmt.Sprintf("%d (%d)", count(v.stale), v.refused[line])
		if !v.fenced[line] {
			stale = "no tokens"
			if v.unseen {
				given = "no tokens"
			}
		}
		fmt.Fprintf(out, "| %s | %d | %s | %s | %d | %d | %d | %d | %d |\n", line, v.granted[line], given, stale,
			causes[paused], causes[revoked], causes[""], count(v.stuck), count(v.left))
	}
	if len(v.lapses) > 0 {
		from := slices.MinFunc(v.lapses, func(a, b lapse) int { return cmp.Compare(a.from, b.from) }).from
		to := slices.MaxFunc(v.lapses, func(a, b lapse) int { return cmp.Compare(a.to, b.to) }).to
		fmt.Fprintf(out, "\nBetween %v and %v the service forgot what it had confirmed, as %d nodes with the number of another, directories that were made twice and answers that are in no log show. "+
			"%d findings of that time, and of 10 s after it, are not counted.\n", round(from), round(to), len(v.lapses), v.lapsed)
	}
	fmt.Fprintf(out, "\nThe audit of the traces: %v.\n", strings.ReplaceAll(v.audit.String(), "\n", "; "))
	v.histogram(out)
	for _, r := range v.readings {
		fmt.Fprintf(out, "\nThe history of %s, %d steps, is %s.", r.line, r.length, map[porcupine.CheckResult]string{
			porcupine.Ok: "linearizable", porcupine.Illegal: "NOT linearizable", porcupine.Unknown: "too long to be checked"}[r.result])
	}
	fmt.Fprintf(out, "\n\n| fault | times | a grant again after the heal: median | p99 | max |\n|---|---|---|---|---|\n")
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

// histogram prints for how long two believed, by cause.
func (v *verdict) histogram(out io.Writer) {
	if len(v.beliefs) == 0 {
		return
	}
	limits := []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, forever}
	type row struct{ line, cause string }
	counts := map[row][]int{}
	for _, b := range v.beliefs {
		r := row{b.line, cmp.Or(b.cause, "unexplained")}
		if counts[r] == nil {
			counts[r] = make([]int, len(limits))
		}
		counts[r][slices.IndexFunc(limits, func(l time.Duration) bool { return b.lasts < l })]++
	}
	fmt.Fprintf(out, "\n| both believed, for | cause | < 1 ms | < 10 ms | < 100 ms | < 1 s | longer |\n|---|---|---|---|---|---|---|\n")
	for _, r := range slices.SortedFunc(maps.Keys(counts), func(a, b row) int { return cmp.Compare(a.line+a.cause, b.line+b.cause) }) {
		fmt.Fprintf(out, "| %s | %s |", r.line, r.cause)
		for _, n := range counts[r] {
			fmt.Fprintf(out, " %d |", n)
		}
		fmt.Fprintln(out)
	}
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
