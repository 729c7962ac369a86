package trace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/turnwise/turnwise/coord"
)

// Verdict is the result of an audit.
type Verdict struct {
	Wrong                   []Finding
	Turns, Lines, Processes int
	Unjudged                []string // what could not be told, and why
}

// Finding is something that must not happen.
type Finding struct {
	What    Fault
	Service string
	Line    string
	Text    string // who, when, and where the traces say so
}

// Fault says what kind of thing was wrong.
type Fault string

// What may be wrong.
const (
	TwoAtOnce  Fault = "two at once"       // or more than there are permits
	OutOfTurn  Fault = "out of turn"       // somebody was let in before one that had come first
	GivenTwice Fault = "token given twice" // to two turns of a line
	WentBack   Fault = "tokens went back"  // one that came later has a smaller one: the service has forgotten
)

func (f Finding) String() string {
	at := ""
	if f.Service != "" {
		at = " of " + coord.Printable(f.Service)
	}
	return fmt.Sprintf("%s: line %s%s: %s", f.What, coord.Printable(f.Line), at, f.Text)
}

// String returns the verdict in a few lines, without the findings.
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

// Verdict judges everything that was read. What it finds wrong is certain, provided that what was read is true.
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
	if services := servicesOf(names); len(services) > 1 {
		text := " that have nothing to do with each other: "
		v.Unjudged = append(v.Unjudged, count(len(services), "service")+text+strings.Join(services, ", "))
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

// servicesOf returns the services of names, which are in order.
func servicesOf(names []name) (all []string) {
	for i, n := range names {
		if i == 0 || n.service != names[i-1].service {
			all = append(all, coord.Printable(n.service))
		}
	}
	return all
}

func (a *Audit) processes() int {
	all := map[string]bool{}
	for _, by := range a.authors {
		all[by.who] = true
	}
	return len(all)
}

// missing counts the records that must have been written, as the numbers of the others show, and their authors.
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
