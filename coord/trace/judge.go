package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// known reports whether a recipe has this kind, so that its rule is known.
func known(kind string) bool {
	switch kind {
	case rules.Lock, rules.Lead, rules.Reader, rules.Writer:
		return true
	}
	return rules.IsPermits(kind)
}

// tokens looks for tokens that do not grow. It returns true if all of them grow: then they tell who came first.
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
			add(GivenTwice, fmt.Sprintf("%d, to %s (%v) and to %s (%v)", x.token, x.who, x.where(), y.who, y.where()))
		}
	}
	var first, before *turn
	back := 0
	for greatest, i := a.greatest(begun), 0; i < len(begun); i++ {
		t := begun[i]
		if t.kind == rules.Reader && t.token&(1<<coord.TurnBits-1) > 0 { // somebody else may have asked for the place, before
			continue
		}
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
			"forgotten, or a backup of it was restored, or these are two services",
			before.token, before.who, before.granted, before.where(), first.token, first.who, first.granted, first.where(), more))
	}
	return ordered
}

// greatest returns a function that finds the greatest token that surely had been granted by a moment.
func (a *Audit) greatest(begun []*turn) func(by moment) *turn {
	type step struct {
		at   int64
		best *turn
	}
	better := func(x, y *turn) *turn {
		if x == nil || y.token > x.token {
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
	grow := func(steps []step, at int64, t *turn) []step {
		if n := len(steps); n > 0 {
			t = better(steps[n-1].best, t)
		}
		return append(steps, step{at, t})
	}
	sorted := slices.Clone(begun)
	byTicks, byWall := map[string][]step{}, []step(nil)
	slices.SortFunc(sorted, func(x, y *turn) int { return cmp.Compare(x.granted.ticks, y.granted.ticks) })
	for _, t := range sorted {
		byTicks[t.granted.clock] = grow(byTicks[t.granted.clock], t.granted.ticks, t)
	}
	slices.SortFunc(sorted, func(x, y *turn) int { return cmp.Compare(x.granted.wall, y.granted.wall) })
	for _, t := range sorted {
		byWall = grow(byWall, t.granted.wall, t)
	}
	return func(by moment) *turn {
		var found *turn
		if s, ok := last(byTicks[by.clock], by.ticks-int64(blur)); ok {
			found = s.best
		}
		if s, ok := last(byWall, by.wall-int64(a.skew)); ok && s.best.granted.clock != by.clock { // else its ticks have said so
			found = better(found, s.best)
		}
		return found
	}
}

// conflicts looks for turns that were given while somebody ahead had to go first.
//
// The turn with the smaller token came first, and stood in line from before the other one joined until it let go. A
// turn was given too soon if one ahead had certainly not let go by then, and the rule says to wait for that one: it
// held the line, or waited for it and was granted later. More ahead never makes a rule wait for less, so it does no
// harm if some of those ahead are in no trace.
//
// If tokens do not say who came first, only turns that surely held at the same moment count.
func (a *Audit) conflicts(turns []*turn, ordered bool, add func(Fault, string)) {
	turns = slices.Clone(turns)
	slices.SortStableFunc(turns, func(x, y *turn) int {
		if ordered {
			return cmp.Compare(x.token, y.token)
		}
		return cmp.Compare(x.granted.wall, y.granted.wall)
	})
	before := ends{audit: a}
	for _, t := range turns {
		if t.hasBegin && known(t.kind) && (ordered || t.hasEnd) && !before.fit(t) {
			var ahead []*turn
			for e := range before.notBefore(t) {
				if a.enough(t, ahead) {
					break
				}
				if a.inTheWay(e, t, ordered) {
					ahead = append(ahead, e)
				}
			}
			a.judge(t, ahead, add)
		}
		if t.hasEnd && (ordered || t.hasBegin) {
			before.add(t)
		}
	}
}

// inTheWay reports whether it is certain that e was ahead of t and had not let go when t was let in.
func (a *Audit) inTheWay(e, t *turn, ordered bool) bool {
	if _, late := a.after(e.ended, t.granted); !late {
		return false
	}
	if !ordered { // it is not certain that e joined first, so they must have held at the same moment
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

// kindAt returns the kind as which e was held at that moment. If it may have become a reader by then, it counts as one.
func (a *Audit) kindAt(e *turn, at moment) string {
	if _, later := a.after(e.softened, at); later && e.hasSoftened {
		return e.kind
	}
	return e.last
}

func (t *turn) node(kind string) driver.Node { return driver.Node{Kind: kind, Token: t.token} }

// enough reports whether these are as many as it takes to see that there was no room for t.
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
			others = append(others, fmt.Sprintf("%s, which came first and had it only at %v (%v)", how, e.granted, e.where()))
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
		how = fmt.Sprintf("%s, which had it until %v%s (%v), %v longer at least", how, until, end, e.ends, round(by))
		others = append(others, how)
	}
	if len(others) > 3 {
		others = append(others[:3], fmt.Sprintf("%d more", len(others)-3))
	}
	text := fmt.Sprintf("%s was let in with token %d as %s at %v (%v) before %s",
		t.who, t.token, t.kind, t.granted, t.where(), strings.Join(others, "; and "))
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
