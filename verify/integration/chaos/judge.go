package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/turnwise/turnwise/coord/trace"
)

// An attempt is all the events of one want of one worker.
type attempt struct {
	worker     int
	want       int64
	line, kind string
	node       string
	token      int64
	slot       int64  // of a job; 0: it is none
	round      uint64 // of a barrier; 0: it is none
	odd        []string
	wanted     time.Duration
	granted    time.Duration // 0: never
	softened   time.Duration // when a writer became a reader; 0: never
	believed   time.Duration // until when it surely believed
	releasing  time.Duration
	ended      time.Duration // 0: the log ends before
	outcome    string        // released, lost, busy, failed; empty: the log ends before
}

// attempts puts events together. Those of one worker are in the order in which they happened.
func attempts(events []Event) []*attempt {
	type id struct {
		worker int
		want   int64
	}
	byID := map[id]*attempt{}
	var all []*attempt
	for _, e := range events {
		a := byID[id{e.Worker, e.Want}]
		if e.What == want {
			a = &attempt{worker: e.Worker, want: e.Want, line: e.Line, kind: e.Kind, wanted: e.At}
			byID[id{e.Worker, e.Want}] = a
			all = append(all, a)
		}
		if a == nil {
			continue
		}
		switch e.What {
		case granted:
			a.granted, a.believed, a.node, a.token, a.slot, a.round = e.At, e.At, e.Node, e.Token, e.Slot, e.Round
		case believed:
			a.believed = max(a.believed, e.At)
		case downgraded:
			a.softened = e.At
		case lost:
			a.outcome = lost
		case releasing:
			a.releasing = e.At
		case released:
			a.ended = e.At
			a.outcome = cmp.Or(a.outcome, released)
		case odd:
			a.odd = append(a.odd, e.Err)
		case busy, failed:
			a.ended, a.outcome = e.At, e.What
		}
	}
	return all
}

// A pause is a time during which somebody was stopped, or a worker was dead.
type pause struct {
	worker   int // which worker
	from, to time.Duration
}

// Evidence is all that the judge looks at.
type evidence struct {
	attempts []*attempt
	truth    *truth
	audit    *trace.Verdict // of the workers' traces
	unseen   bool           // the truth is only what stands at the end
	writes   []write
	pauses   []pause               // workers that were stopped
	killed   map[int]time.Duration // workers that were killed, and when
	frozen   []pause               // servers that were stopped; worker is 0
	forgot   bool                  // the service has begun again, and its tokens with it
	stale    time.Duration         // how old may be what a refused try was shown
	drained  time.Duration         // when everybody was told to finish
}

// A flaw is something that must not be.
type flaw struct {
	line string
	text string
	node string        // that was granted and is not in the truth; empty: it is something else
	at   time.Duration // of a grant
}

func (f flaw) String() string { return f.line + ": " + f.text }

// A belief is a time during which two believed to hold what only one may.
type belief struct {
	line  string
	first *attempt
	next  *attempt
	lasts time.Duration
	cause string // empty: nothing explains it
}

// Why two may believe to hold.
const (
	paused  = "the first was paused"
	revoked = "revoked early by a server that was frozen"
)

// A verdict is what the judge found, by kind.
type verdict struct {
	granted  map[string]int  // by line
	fenced   map[string]bool // lines that have tokens
	unseen   bool
	overlaps []flaw // at the server
	audit    *trace.Verdict
	stale    []flaw         // writes that the fenced register took
	refused  map[string]int // writes that it refused, by line
	beliefs  []belief
	repeated []flaw // slots of a job
	mixed    []flaw // rounds of a barrier
	odd      []flaw // views of a group
	stuck    []flaw
	left     []flaw
	readings []reading
	lapses   []lapse         // of the service
	lapsed   int             // what was found in those times, and is counted nowhere else
	revoked  map[string]bool // lines in which a server that was frozen took away a node whose worker held
}

func judge(e *evidence) *verdict {
	v := &verdict{granted: map[string]int{}, fenced: map[string]bool{}, refused: map[string]int{}, unseen: e.unseen, audit: e.audited()}
	for _, a := range e.attempts {
		if a.granted > 0 {
			v.granted[a.line]++
			v.fenced[a.line] = v.fenced[a.line] || a.token != 0
		}
	}
	v.lapses = e.truth.lapses()
	if !e.unseen {
		v.overlaps = slices.DeleteFunc(serverOverlaps(e), func(f flaw) bool { return v.isLapsed(f.at) || v.isForgotten(e.truth, f.node) })
		v.readings = readHistories(e)
	}
	v.stale = staleWrites(e.writes)
	for _, w := range e.writes {
		if !w.accepted {
			v.refused[w.line]++
		}
	}
	v.beliefs = slices.DeleteFunc(beliefs(e), func(b belief) bool { return v.isLapsed(b.next.granted) })
	if !e.forgot {
		v.repeated = slices.DeleteFunc(repeated(e), func(f flaw) bool { return v.isLapsed(f.at) })
		v.mixed = slices.DeleteFunc(mixed(e), func(f flaw) bool { return v.isLapsed(f.at) })
		v.odd = slices.DeleteFunc(oddViews(e), func(f flaw) bool { return v.isLapsed(f.at) || v.isApart(e.truth, f.line, f.at) })
	}
	v.revoked = e.revokedIn()
	v.stuck = stuck(e)
	for _, s := range e.truth.nodes {
		if s.gone == 0 {
			v.left = append(v.left, flaw{line: s.line, text: "left standing: " + s.node})
		}
	}
	return v
}

// audited returns what the traces say. When a service forgets, its tokens begin again.
func (e *evidence) audited() *trace.Verdict {
	v := cmp.Or(e.audit, &trace.Verdict{})
	if e.forgot {
		v.Wrong = slices.DeleteFunc(v.Wrong, func(f trace.Finding) bool { return f.What == trace.GivenTwice || f.What == trace.WentBack })
	}
	return v
}

// isLapsed reports whether a grant came while the service was forgetting, or soon after: a holder may believe in a forgotten
// hold until its session ends. It counts those.
func (v *verdict) isLapsed(at time.Duration) bool {
	for _, l := range v.lapses {
		if l.from <= at && at-10*time.Second <= l.to {
			v.lapsed++
			return true
		}
	}
	return false
}

// isForgotten reports whether a node is one of those that may have been forgotten: the service had it, and nobody knows who stood ahead
// of it. It may be granted long after that, by a member that has it. It counts those.
func (v *verdict) isForgotten(t *truth, node string) bool {
	if t.forgotten[node] {
		v.lapsed++
	}
	return t.forgotten[node]
}

// isApart reports whether members may have shown different nodes of a line when somebody came there who then saw what cannot be. It
// counts those.
func (v *verdict) isApart(t *truth, line string, at time.Duration) bool {
	apart := at <= t.apart[line] && slices.ContainsFunc(v.lapses, func(l lapse) bool { return l.from <= at })
	if apart {
		v.lapsed++
	}
	return apart
}

// isExplained reports whether what the audit has found in a line is the service's doing, as it was when two believed there.
func (v *verdict) isExplained(line string) bool {
	return len(v.lapses) > 0 || v.revoked[line] || slices.ContainsFunc(v.beliefs, func(b belief) bool { return b.line == line && b.cause == revoked })
}

// revokedIn returns the lines in which a lease that was taken away early ended a hold. Where two believe for a few milliseconds, what the
// workers wrote down may miss it, and their traces do not.
func (e *evidence) revokedIn() map[string]bool {
	nodes, lines := e.truth.byName(), map[string]bool{}
	for _, a := range e.attempts {
		s := nodes[a.node]
		if s == nil || !s.revoked || a.granted == 0 {
			continue
		}
		if from := e.truth.notBefore(s.gone); (a.ended == 0 || a.ended > from) && e.wasFrozen(from, from+1) {
			lines[a.line] = true
		}
	}
	return lines
}

// serverOverlaps finds grants that came while a node that excludes them still stood ahead. It takes the earliest time at
// which a node can have gone, so what it finds is certain.
func serverOverlaps(e *evidence) []flaw {
	byNode := map[string]*standing{}
	byLine := map[string][]*standing{}
	for _, s := range e.truth.nodes {
		byNode[s.node] = s
		byLine[s.line] = append(byLine[s.line], s)
	}
	for _, nodes := range byLine {
		slices.SortFunc(nodes, func(a, b *standing) int { return slices.Compare(a.order[:], b.order[:]) })
	}
	var found []flaw
	for _, a := range e.attempts {
		if a.granted == 0 || a.round > 0 { // a barrier does not tell whose node is whose
			continue
		}
		mine := byNode[a.node]
		if mine == nil {
			found = append(found, flaw{line: a.line, node: a.node, at: a.granted,
				text: fmt.Sprintf("worker %d was granted %s, which the service never had", a.worker, a.node)})
			continue
		}
		if isSemaphore(a.kind) {
			sum, who := weight(a.kind), ""
			for _, other := range standingAhead(byLine[a.line], mine) {
				if until := e.truth.notBefore(other.gone); until > a.granted {
					sum += weight(other.kind)
					who += fmt.Sprintf(", %s until %v at least", other.node, until)
				}
			}
			if sum > permits {
				found = append(found, flaw{line: a.line, at: a.granted, text: fmt.Sprintf("worker %d was granted %s at %v: %d of %d permits%s",
					a.worker, a.node, a.granted, sum, permits, who)})
			}
			continue
		}
		for _, other := range standingAhead(byLine[a.line], mine) {
			end := other.gone
			if a.kind == "R" && other.softened > 0 {
				end = other.softened
			}
			if conflict(a.kind, other.kind) && e.truth.notBefore(end) > a.granted {
				found = append(found, flaw{line: a.line, at: a.granted, text: fmt.Sprintf("worker %d was granted %s at %v while %s stood ahead, until %v at least",
					a.worker, a.node, a.granted, other.node, e.truth.notBefore(end))})
			}
		}
	}
	return found
}

// standingAhead returns the nodes ahead of mine. It leaves out my own under the name that an amendment gave it, since that
// has my place.
func standingAhead(line []*standing, mine *standing) []*standing {
	i := slices.IndexFunc(line, func(s *standing) bool { return !s.ahead(mine) })
	return line[:max(i, 0)]
}

// staleWrites finds writes that were taken after one with a greater token.
func staleWrites(writes []write) []flaw {
	greatest := map[string]int64{}
	var found []flaw
	for _, w := range writes {
		if !w.accepted || w.token == 0 {
			continue
		}
		if w.token < greatest[w.line] {
			found = append(found, flaw{line: w.line, text: fmt.Sprintf("worker %d wrote with token %d after %d", w.worker, w.token, greatest[w.line])})
		}
		greatest[w.line] = max(greatest[w.line], w.token)
	}
	return found
}

// beliefs finds times when two workers that exclude one another both asked about their holds, and were told that they are
// good.
func beliefs(e *evidence) []belief {
	byLine := map[string][]*attempt{}
	for _, a := range e.attempts {
		if a.granted > 0 {
			byLine[a.line] = append(byLine[a.line], a)
		}
	}
	nodes := e.truth.byName()
	var found []belief
	for line, all := range byLine {
		slices.SortFunc(all, func(a, b *attempt) int { return cmp.Compare(a.granted, b.granted) })
		var open []*attempt // earlier ones who may still believe
		for _, next := range all {
			open = slices.DeleteFunc(open, func(a *attempt) bool { return a.believed <= next.granted })
			if isSemaphore(next.kind) {
				sum := weight(next.kind)
				for _, first := range open {
					sum += weight(first.kind)
				}
				if sum > permits {
					// The one that has believed longest should have ended.
					first := slices.MinFunc(open, func(a, b *attempt) int { return cmp.Compare(a.granted, b.granted) })
					found = append(found, explain(e, nodes, belief{line: line, first: first, next: next}))
				}
			} else {
				for _, first := range open {
					if conflict(first.kind, next.kind) && !(next.kind == "R" && first.softened > 0) {
						found = append(found, explain(e, nodes, belief{line: line, first: first, next: next}))
					}
				}
			}
			open = append(open, next)
		}
	}
	return found
}

// explain measures an overlap and looks for its cause.
func explain(e *evidence, nodes map[string]*standing, b belief) belief {
	until := min(b.first.believed, max(b.next.believed, b.next.granted))
	b.lasts = max(until-b.next.granted, 1)
	// Who stood in front should have ended. Usually he was granted first, too; but one whose node was taken away while he waited may
	// be granted before he hears of that.
	late, from, last := b.first, b.first.granted, b.first.believed
	ahead, behind := nodes[b.next.node], nodes[b.first.node]
	if ahead != nil && behind != nil && ahead.ahead(behind) && ahead.gone > 0 {
		late, from, last = b.next, min(e.truth.notBefore(ahead.gone), b.next.granted), max(b.next.believed, b.next.granted)
	}
	if e.wasPaused(late.worker, from, last) {
		b.cause = paused
		return b
	}
	// The service took away the node of a worker that still believed. It may do so by mistake if a server was frozen while the
	// hold lasted: its clock went on, and it does not count the renewals that it did not hear.
	if s := nodes[late.node]; s != nil && s.gone > 0 && (late.outcome == lost || s.revoked) && e.wasFrozen(b.next.granted, last) {
		b.cause = revoked
	}
	return b
}

// wasPaused reports whether a worker was stopped at some time between two.
func (e *evidence) wasPaused(worker int, from, to time.Duration) bool {
	return slices.ContainsFunc(e.pauses, func(p pause) bool { return p.worker == worker && p.from < to && p.to > from })
}

// wasFrozen reports whether a server was stopped at some time between two, or shortly before: what it does wrong then comes late.
func (e *evidence) wasFrozen(from, to time.Duration) bool {
	return slices.ContainsFunc(e.frozen, func(p pause) bool { return p.to+10*time.Second > from && p.from < to })
}

// repeated finds slots that were run a second time.
func repeated(e *evidence) []flaw {
	runs := map[int64]*attempt{}
	var found []flaw
	for _, a := range e.attempts {
		if a.slot == 0 {
			continue
		}
		if first := runs[a.slot]; first != nil {
			found = append(found, flaw{line: a.line, at: max(a.granted, first.granted),
				text: fmt.Sprintf("slot %d was run by worker %d at %v and by worker %d at %v", a.slot, first.worker, first.granted, a.worker, a.granted)})
		}
		runs[a.slot] = a
	}
	return found
}

// mixed finds rounds of a barrier with too many in them, and those that began before all of an earlier one had left.
func mixed(e *evidence) []flaw {
	var found []flaw
	var met []*attempt
	for _, a := range e.attempts {
		if a.round > 0 {
			met = append(met, a)
		}
	}
	slices.SortFunc(met, func(a, b *attempt) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.granted, b.granted))
	})
	for i, b := range met {
		if i >= meet && met[i-meet].round == b.round {
			found = append(found, flaw{line: b.line, at: b.granted, text: fmt.Sprintf("worker %d came into round %d at %v as one too many", b.worker, b.round, b.granted)})
		}
		for _, a := range met[:i] {
			if a.round < b.round && a.believed > b.granted && !e.excused(a) {
				found = append(found, flaw{line: b.line, at: b.granted, text: fmt.Sprintf("worker %d came into round %d at %v, and worker %d believed to be in round %d until %v",
					b.worker, b.round, b.granted, a.worker, a.round, a.believed)})
			}
		}
	}
	return found
}

// excused reports whether a worker may believe for too long, because it was paused, or because a server that was frozen ended its session
// too early.
func (e *evidence) excused(a *attempt) bool {
	return e.wasPaused(a.worker, a.granted, a.believed) || (a.outcome == lost || e.wasRevoked(a)) && e.wasFrozen(a.granted, a.believed)
}

// wasRevoked reports whether a node that may be the worker's went together with its lease while he believed: he may let go at the word of it,
// before he notes that he lost it. A barrier does not tell whose node is whose, so that of anybody in the line counts.
func (e *evidence) wasRevoked(a *attempt) bool {
	return slices.ContainsFunc(e.truth.nodes, func(s *standing) bool {
		return s.revoked && s.line == a.line && e.truth.notBefore(s.gone) < a.believed && e.truth.notAfter(s.gone) > a.granted
	})
}

// oddViews finds views of a group that cannot be.
func oddViews(e *evidence) []flaw {
	var found []flaw
	for _, a := range e.attempts {
		for _, text := range a.odd {
			found = append(found, flaw{line: a.line, at: a.granted, text: fmt.Sprintf("worker %d: %s", a.worker, text)})
		}
	}
	return found
}

// stuck finds what living workers had not finished when everybody should have been served.
func stuck(e *evidence) []flaw {
	var found []flaw
	for _, a := range e.attempts {
		if _, dead := e.killed[a.worker]; !dead && a.ended == 0 {
			found = append(found, flaw{line: a.line, text: fmt.Sprintf("worker %d, want %d: still there when the time to finish was over; granted: %v",
				a.worker, a.want, a.granted > 0)})
		}
	}
	return found
}
