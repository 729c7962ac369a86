package trace

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/turnwise/turnwise/coord/driver/rules"
)

// ends are turns in the order of their ends, by the clock that timed them and by what they mean to those behind them. So
// whoever is judged looks only at those that are in its way, however many others overlap with it.
type ends struct {
	audit  *Audit
	clocks []*endsByClock
	byName map[string]*endsByClock
	added  int
}

type endsByClock struct {
	clock  string
	groups []*group
	byKind map[string]*group
}

// group is turns that mean the same to each turn behind them.
type group struct {
	kind            string
	weight, permits int64 // of a semaphore's; else the most there is
	byTicks, byWall list  // of their ends
}

// The groups of kinds that are not a semaphore's.
const (
	readers = "readers"
	writers = "writers" // and all else that readers wait for
	mixed   = "mixed"   // writers that became readers, and other changes: few overlap, and each is looked at
)

// list is in order. Of those at the same time the first one added is the last.
type list []entry

type entry struct {
	at    int64
	turn  *turn
	added int
}

func (l *list) add(e entry) { // nearly always at the end
	i, _ := slices.BinarySearchFunc(*l, e, func(x, y entry) int { return cmp.Compare(x.at, y.at) })
	*l = slices.Insert(*l, i, e)
}

// upTo returns how many are not later than at.
func (l list) upTo(at int64) int {
	i, _ := slices.BinarySearchFunc(l, at, func(e entry, at int64) int {
		if e.at <= at {
			return -1
		}
		return 1
	})
	return i
}

// groupOf says to which group a turn belongs that has ended.
func groupOf(t *turn) (kind string, weight, permits int64) {
	first, last := t.kind, t.last
	if !t.hasSoftened {
		first = last
	}
	if rules.IsPermits(first) && rules.IsPermits(last) && first[1:] == last[1:] {
		w, p, _ := strings.Cut(last[1:], "of")
		weight, _ = strconv.ParseInt(w, 10, 64)
		permits, _ = strconv.ParseInt(p, 10, 64)
		return last[1:], weight, permits
	}
	switch {
	case first == rules.Reader && last == rules.Reader:
		kind = readers
	case first != rules.Reader && last != rules.Reader:
		kind = writers
	default:
		kind = mixed
	}
	return kind, math.MaxInt64, math.MaxInt64
}

func (all *ends) add(t *turn) {
	c := all.byName[t.ended.clock]
	if c == nil {
		if all.byName == nil {
			all.byName = make(map[string]*endsByClock)
		}
		c = &endsByClock{clock: t.ended.clock, byKind: make(map[string]*group)}
		all.byName[c.clock] = c
		all.clocks = append(all.clocks, c)
	}
	kind, weight, permits := groupOf(t)
	g := c.byKind[kind]
	if g == nil {
		g = &group{kind: kind, weight: weight, permits: permits}
		c.byKind[kind] = g
		c.groups = append(c.groups, g)
	}
	all.added++
	g.byTicks.add(entry{t.ended.ticks, t, all.added})
	g.byWall.add(entry{t.ended.wall, t, all.added})
}

// list returns the turns of a group that may be in the way of one of a kind, by the ticks of their clock or by the wall's.
func (g *group) list(kind string, byTicks bool) list {
	switch {
	case kind == rules.Reader && g.kind == readers:
		return nil
	case byTicks:
		return g.byTicks
	default:
		return g.byWall
	}
}

// since returns when a turn's ends begin that were surely after t was granted.
func (all *ends) since(c *endsByClock, t *turn) (at int64, byTicks bool) {
	if c.clock == t.granted.clock {
		return t.granted.ticks + int64(blur), true
	}
	return t.granted.wall + int64(all.audit.skew), false
}

// fit reports whether there was room for all the permits of a semaphore that may have been taken when t was let in.
func (all *ends) fit(t *turn) bool {
	if !rules.IsPermits(t.kind) {
		return false
	}
	_, sum, permits := groupOf(&turn{kind: t.kind, last: t.kind})
	for _, c := range all.clocks {
		since, byTicks := all.since(c, t)
		for _, g := range c.groups {
			l := g.list(t.kind, byTicks)
			n := int64(len(l) - l.upTo(since))
			if n == 0 {
				continue
			}
			if permits = min(permits, g.permits); sum > permits || n > (permits-sum)/g.weight {
				return false
			}
			sum += n * g.weight
		}
	}
	return sum <= permits
}

// notBefore yields the turns that may be in the way of t and ended after it was granted, by the better clock: for each clock,
// the last one first.
func (all *ends) notBefore(t *turn) iter.Seq[*turn] {
	return func(yield func(*turn) bool) {
		for _, c := range all.clocks {
			since, byTicks := all.since(c, t)
			var left []list
			for _, g := range c.groups {
				if l := g.list(t.kind, byTicks); len(l) > 0 && l[len(l)-1].at > since {
					left = append(left, l)
				}
			}
			for {
				var best *list
				for i := range left {
					if best == nil || later(left[i], *best) {
						best = &left[i]
					}
				}
				if best == nil {
					break
				}
				n := len(*best) - 1
				if n < 0 || (*best)[n].at <= since {
					break
				}
				e := (*best)[n]
				*best = (*best)[:n]
				if !yield(e.turn) {
					return
				}
			}
		}
	}
}

// later reports whether the next of x comes before that of y.
func later(x, y list) bool {
	if len(x) == 0 || len(y) == 0 {
		return len(y) == 0
	}
	a, b := x[len(x)-1], y[len(y)-1]
	return a.at > b.at || a.at == b.at && a.added < b.added
}
