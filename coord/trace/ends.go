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

// list is in order. Of those at the same time the first one added is the last. It is kept in blocks, none of them empty, so that one
// that goes far ahead of others moves few of them.
type list struct {
	blocks [][]entry
	size   int
}

type entry struct {
	at    int64
	turn  *turn
	added int
}

// mostInBlock is how long a block may be.
const mostInBlock = 512

func (l *list) add(e entry) { // nearly always at the end
	l.size++
	if len(l.blocks) == 0 {
		l.blocks = [][]entry{{e}}
		return
	}
	b, _ := slices.BinarySearchFunc(l.blocks, e.at, func(block []entry, at int64) int { return cmp.Compare(block[len(block)-1].at, at) })
	b = min(b, len(l.blocks)-1)
	i, _ := slices.BinarySearchFunc(l.blocks[b], e.at, func(x entry, at int64) int { return cmp.Compare(x.at, at) })
	block := slices.Insert(l.blocks[b], i, e)
	l.blocks[b] = block
	if half := len(block) / 2; len(block) > mostInBlock {
		l.blocks[b] = block[:half:half]
		l.blocks = slices.Insert(l.blocks, b+1, slices.Clone(block[half:]))
	}
}

// after returns how many are later than at.
func (l *list) after(at int64) (n int) {
	for _, block := range slices.Backward(l.blocks) {
		if block[0].at > at {
			n += len(block)
			continue
		}
		i, _ := slices.BinarySearchFunc(block, at, func(e entry, at int64) int {
			if e.at <= at {
				return -1
			}
			return 1
		})
		return n + len(block) - i
	}
	return n
}

// rest is what is left of a list that is gone through from its end.
type rest struct {
	blocks [][]entry
	block  []entry
}

func (l *list) rest() *rest { return &rest{blocks: l.blocks} }

// last returns the next one.
func (r *rest) last() (e entry, ok bool) {
	if len(r.block) == 0 {
		if len(r.blocks) == 0 {
			return e, false
		}
		n := len(r.blocks) - 1
		r.blocks, r.block = r.blocks[:n], r.blocks[n]
	}
	return r.block[len(r.block)-1], true
}

func (r *rest) pass() { r.block = r.block[:len(r.block)-1] }

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
func (g *group) list(kind string, byTicks bool) *list {
	switch {
	case kind == rules.Reader && g.kind == readers:
		return new(list)
	case byTicks:
		return &g.byTicks
	default:
		return &g.byWall
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
			n := int64(g.list(t.kind, byTicks).after(since))
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
			var left []*rest
			for _, g := range c.groups {
				left = append(left, g.list(t.kind, byTicks).rest())
			}
			for {
				e, from := latest(left)
				if from == nil || e.at <= since {
					break
				}
				from.pass()
				if !yield(e.turn) {
					return
				}
			}
		}
	}
}

// latest returns the latest of what is left, and where it is; nil: nothing is left. Of those at the same time it is the first one added.
func latest(left []*rest) (e entry, from *rest) {
	for _, r := range left {
		next, ok := r.last()
		if ok && (from == nil || next.at > e.at || next.at == e.at && next.added < e.added) {
			e, from = next, r
		}
	}
	return e, from
}
