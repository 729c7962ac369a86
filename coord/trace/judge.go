package trace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// Verdict is what came of an audit.
type Verdict struct {
	Wrong                   []Finding
	Turns, Lines, Processes int
	Unjudged                []string // what could not be told, and why
}

// Finding is something that must not be.
type Finding struct {
	What    Fault
	Service string
	Line    string
	Text    string // who, when, and where that is written
}

// Fault says what kind of thing was wrong.
type Fault string

// What may be wrong.
const (
	TwoAtOnce  Fault = "two at once"       // or more than there are permits
	OutOfTurn  Fault = "out of turn"       // somebody was let in before one who had come first
	GivenTwice Fault = "token given twice" // to two turns of a line
	WentBack   Fault = "tokens went back"  // one who came later has a smaller one: the service has forgotten
)

func (f Finding) String() string {
	at := ""
	if f.Service != "" {
		at = " of " + coord.Printable(f.Service)
	}
	return fmt.Sprintf("%s: line %s%s: %s", f.What, coord.Printable(f.Line), at, f.Text)
}

// String is the verdict in a few lines, without the findings.
func (v *Verdict) String() string {
	what := "nothing wrong"
	if n := len(v.Wrong); n > 0 {
		what = count(n, "thing") + " wrong"
	}
	all := append([]string{fmt.Sprintf("%s in %s of %s: %s", count(v.Turns, "turn"), count(v.Lines, "line"),
		plural(v.Processes, "process", "processes"), what)}, v.Unjudged...)
	return strings.Join(all, "\n")
}

func count(n int, what string) string { return plural(n, what, what+"s") }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits + " " + many
}

// Verdict judges all that was read. What it finds wrong is certain, if what was read is true.
func (a *Audit) Verdict() *Verdict {
	v := &Verdict{Processes: a.processes()}
	lines := a.turns()
	names := make([]name, 0, len(lines))
	for n := range lines {
		names = append(names, n)
	}
	slices.SortFunc(names, func(x, y name) int {
		return cmp.Or(strings.Compare(x.service, y.service), strings.Compare(x.line, y.line))
	})
	endless, own, headless := 0, 0, 0
	for _, n := range names {
		turns := lines[n]
		begun := 0
		for _, t := range turns {
			switch {
			case !t.hasBegin:
				headless++
				continue
			case !t.hasEnd:
				endless++
			}
			if !known(t.kind) {
				own++
			}
			begun++
		}
		v.Turns += begun
		v.Lines++
		add := func(what Fault, text string) { v.Wrong = append(v.Wrong, Finding{what, n.service, n.line, text}) }
		ordered := a.tokens(turns, add)
		a.conflicts(turns, ordered, add)
	}
	unjudged := func(n int, what, why string) {
		if n > 0 {
			v.Unjudged = append(v.Unjudged, count(n, what)+" "+why)
		}
	}
	if services := slices.CompactFunc(slices.Clone(names), func(x, y name) bool { return x.service == y.service }); len(services) > 1 {
		var all []string
		for _, s := range services {
			all = append(all, coord.Printable(s.service))
		}
		v.Unjudged = append(v.Unjudged, count(len(all), "service")+" that have nothing to do with each other: "+strings.Join(all, ", "))
	}
	unjudged(endless, "turn", "without an end in the traces, as when a process is killed: judged by the beginning alone")
	unjudged(headless, "turn", "without a beginning in the traces: judged by the end alone")
	unjudged(own, "turn", "of kinds that no recipe has: judged by the token alone")
	missing, authors := a.missing()
	unjudged(missing, "record", "missing, of "+count(authors, "client"))
	if a.broken > 0 {
		unjudged(a.broken, "line", fmt.Sprintf("that cannot be read, the first at %v: %v", a.first, a.why))
	}
	return v
}

func (a *Audit) processes() int {
	all := map[string]bool{}
	for _, by := range a.authors {
		all[by.who] = true
	}
	return len(all)
}

// missing counts the records that others show to have been written, and their authors.
func (a *Audit) missing() (records, authors int) {
	for _, by := range a.authors {
		slices.Sort(by.numbers)
		by.numbers = slices.Compact(by.numbers)
		if n := by.numbers[len(by.numbers)-1] - int64(len(by.numbers)); n > 0 {
			records += int(min(n, math.MaxInt32))
			authors++
		}
	}
	return records, authors
}

// known reports whether a recipe has this kind, so that its rule is known.
func known(kind string) bool {
	switch kind {
	case rules.Lock, rules.Lead, rules.Reader, rules.Writer:
		return true
	}
	return rules.IsPermits(kind)
}

// tokens looks for tokens that do not grow. It reports whether they do: then they tell who came first.
func (a *Audit) tokens(turns []*turn, add func(Fault, string)) bool {
	var begun []*turn
	for _, t := range turns {
		if t.hasBegin {
			begun = append(begun, t)
		}
	}
	slices.SortFunc(begun, func(x, y *turn) int {
		return cmp.Or(cmp.Compare(x.token, y.token), cmp.Compare(x.granted.wall, y.granted.wall))
	})
	ordered := true
	for i := 1; i < len(begun); i++ {
		if x, y := begun[i-1], begun[i]; x.token == y.token {
			ordered = false
			add(GivenTwice, fmt.Sprintf("%d, to %s (%v) and to %s (%v)", x.token, x.who, x.place(), y.who, y.place()))
		}
	}
	var first, before *turn
	back := 0
	for greatest, i := a.greatest(begun), 0; i < len(begun); i++ {
		t := begun[i]
		if g := greatest(t.asked); g != nil && g.token > t.token {
			if back++; first == nil || t.granted.wall < first.granted.wall {
				first, before = t, g
			}
		}
	}
	if back > 0 {
		ordered = false
		more := ""
		if back > 1 {
			more = fmt.Sprintf("; %s more like it", plural(back-1, "turn", "turns"))
		}
		add(WentBack, fmt.Sprintf("from %d, which %s had at %v (%v), to %d, which %s asked for later and had at %v (%v)%s: the service has "+
			"forgotten, or a backup of it was restored, or these are two services", before.token, before.who, before.granted, before.place(),
			first.token, first.who, first.granted, first.place(), more))
	}
	return ordered
}

// greatest returns a function that finds the greatest token that surely had been granted by a moment.
func (a *Audit) greatest(begun []*turn) func(by moment) *turn {
	type step struct {
		at   int64
		best *turn
		next *turn // the best of another clock than best's; not kept for ticks
	}
	better := func(x, y *turn) *turn {
		if x == nil || y != nil && y.token > x.token {
			return y
		}
		return x
	}
	last := func(steps []step, before int64) (step, bool) {
		i, _ := slices.BinarySearchFunc(steps, before, func(s step, at int64) int { return cmp.Compare(s.at, at) })
		if i == 0 {
			return step{}, false
		}
		return steps[i-1], true
	}
	byTicks := map[string][]step{}
	sorted := slices.Clone(begun)
	slices.SortFunc(sorted, func(x, y *turn) int { return cmp.Compare(x.granted.ticks, y.granted.ticks) })
	for _, t := range sorted {
		s := step{at: t.granted.ticks, best: t}
		if all := byTicks[t.granted.clock]; len(all) > 0 {
			s.best = better(all[len(all)-1].best, t)
		}
		byTicks[t.granted.clock] = append(byTicks[t.granted.clock], s)
	}
	var byWall []step
	slices.SortFunc(sorted, func(x, y *turn) int { return cmp.Compare(x.granted.wall, y.granted.wall) })
	for _, t := range sorted {
		s := step{at: t.granted.wall, best: t}
		if n := len(byWall); n > 0 {
			s.best, s.next = byWall[n-1].best, byWall[n-1].next
			switch {
			case t.granted.clock == s.best.granted.clock:
				s.best = better(s.best, t)
			case t.token > s.best.token:
				s.best, s.next = t, s.best
			default:
				s.next = better(s.next, t)
			}
		}
		byWall = append(byWall, s)
	}
	return func(by moment) *turn {
		var found *turn
		if s, ok := last(byTicks[by.clock], by.ticks-int64(blur)); ok {
			found = s.best
		}
		if s, ok := last(byWall, by.wall-int64(a.skew)); ok {
			other := s.best
			if other.granted.clock == by.clock {
				other = s.next
			}
			if other != nil {
				found = better(found, other)
			}
		}
		return found
	}
}

// conflicts looks for turns that came while somebody stood ahead for whom they had to wait.
//
// Who has a smaller token came first, and stood in line from before the other one joined until it let go. So whoever is let
// in before somebody ahead has surely let go was let in too soon, if its rule says that it has to wait for that one: the
// other one held the line, or waited for it and was granted later. More ahead never makes a rule wait for less, so it does
// no harm if some of those ahead are in no trace.
//
// If tokens do not say who came first, only those count who surely held at one moment.
func (a *Audit) conflicts(turns []*turn, ordered bool, add func(Fault, string)) {
	turns = slices.Clone(turns)
	slices.SortStableFunc(turns, func(x, y *turn) int {
		if ordered {
			return cmp.Compare(x.token, y.token)
		}
		return cmp.Compare(x.granted.wall, y.granted.wall)
	})
	set := a.set()
	var ends []*turn // of those before, by their end
	for _, t := range turns {
		if t.hasBegin && known(t.kind) {
			var ahead []*turn
			for i := len(ends) - 1; i >= 0 && ends[i].ended.wall > t.granted.wall-set && !a.enough(t, ahead); i-- {
				if e := ends[i]; a.inTheWay(e, t, ordered) {
					ahead = append(ahead, e)
				}
			}
			a.judge(t, ahead, add)
		}
		if t.hasEnd && (ordered || t.hasBegin) {
			i, _ := slices.BinarySearchFunc(ends, t, func(x, y *turn) int { return cmp.Compare(x.ended.wall, y.ended.wall) })
			ends = slices.Insert(ends, i, t)
		}
	}
}

// set is by how much the clock of a machine was set, at most.
func (a *Audit) set() int64 {
	var most int64
	for _, s := range a.clocks {
		most = max(most, s.most-s.least)
	}
	return most
}

// inTheWay reports whether it is certain that e had not let go when t was let in, and is ahead of it.
func (a *Audit) inTheWay(e, t *turn, ordered bool) bool {
	if _, late := a.after(e.ended, t.granted); !late {
		return false
	}
	if !ordered {
		if !t.hasEnd {
			return false
		}
		if _, late := a.after(t.ended, e.granted); !late {
			return false
		}
	}
	return rules.IsPermits(t.kind) || waits(t, e.node(a.kindAt(e, t.granted)))
}

// waits reports whether t has to wait for these.
func waits(t *turn, ahead ...driver.Node) bool {
	return len(rules.For(t.kind)(t.node(t.kind), ahead)) > 0
}

// kindAt is as which e was held. If it may have become a reader by then, it counts as one.
func (a *Audit) kindAt(e *turn, at moment) string {
	if _, later := a.after(e.softened, at); later && e.hasSoftened {
		return e.kind
	}
	return e.last
}

func (t *turn) node(kind string) driver.Node { return driver.Node{Kind: kind, Token: t.token} }

// enough reports whether those ahead are as many as it takes to see that there is no room.
func (a *Audit) enough(t *turn, ahead []*turn) bool {
	if !rules.IsPermits(t.kind) {
		return len(ahead) == 3
	}
	_, text, _ := strings.Cut(t.kind, "of")
	permits, err := strconv.Atoi(text)
	return err == nil && len(ahead) >= permits
}

// judge asks the rule of t whether it had to wait for those ahead.
func (a *Audit) judge(t *turn, ahead []*turn, add func(Fault, string)) {
	slices.SortFunc(ahead, func(x, y *turn) int { return cmp.Compare(x.token, y.token) })
	nodes := make([]driver.Node, len(ahead))
	for i, e := range ahead {
		nodes[i] = e.node(a.kindAt(e, t.granted))
	}
	if !waits(t, nodes...) {
		return
	}
	apart := false
	var others []string
	var held []driver.Node
	for i, e := range ahead {
		apart = apart || e.granted.clock != t.granted.clock && e.ended.clock != t.granted.clock
		how := fmt.Sprintf("%s with token %d as %s", e.who, e.token, coord.Printable(nodes[i].Kind))
		if _, later := a.after(e.granted, t.granted); e.hasBegin && later {
			others = append(others, fmt.Sprintf("%s, which came first and had it only at %v (%v)", how, e.granted, e.place()))
			continue
		}
		held = append(held, nodes[i])
		until := e.ended
		if !rules.IsPermits(t.kind) && !waits(t, e.node(e.last)) {
			until = e.softened
		}
		by, _ := a.after(until, t.granted)
		if t.hasEnd {
			if lasted, _ := a.after(t.ended, t.granted); lasted > 0 {
				by = min(by, lasted)
			}
		}
		end := ""
		if e.lost {
			end = ", when it was lost: " + coord.Printable(strings.TrimPrefix(e.why, "turnwise: "))
		}
		others = append(others, fmt.Sprintf("%s, which had it until %v%s (%v), %v longer at least", how, until, end, e.ends, round(by)))
	}
	if len(others) > 3 {
		others = append(others[:3], fmt.Sprintf("%d more", len(others)-3))
	}
	text := fmt.Sprintf("%s was let in with token %d as %s at %v (%v) before %s", t.who, t.token, t.kind, t.granted, t.place(), strings.Join(others, "; and "))
	if apart {
		text += fmt.Sprintf("; if the clocks of the machines differ by %v at most", a.skew)
	}
	if waits(t, held...) {
		add(TwoAtOnce, text)
	} else {
		add(OutOfTurn, text)
	}
}

func round(d time.Duration) time.Duration {
	if d > 10*time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Microsecond)
}
