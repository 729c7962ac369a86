package lines

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// Wait says that one owner waits for another one in a line.
type Wait struct {
	From string `json:"from"`
	To   string `json:"to"`
	Line string `json:"line"`

	Token string `json:"token,omitempty"` // of the waiter's place; only in circles, where one may want to break it
}

// Circle is a circle of owners, each of which waits for the next.
type Circle struct {
	Since time.Time `json:"since"` // when it was first seen
	Waits []Wait    `json:"waits"`
	More  int       `json:"more"` // waits that are not listed
}

const (
	mostWaits = 200       // how many a board shows, and how many of a circle
	mostIn    = 1000      // contenders of a line that are looked at
	mostSteps = 2_000_000 // how often one of them is, on behalf of one behind it
	mostKin   = 2000      // processes that are looked up
)

// standing is a line, and who stands in it.
type standing struct {
	name string
	asOf time.Time
	all  []coord.Node

	of    []*process // whose each node is; nil if it does not say
	waits []bool     // whether it waits, and its owner with it
	steps int        // see mostSteps
}

// tangled reports whether it takes too long to see who waits for whom in the line. From then on everybody who is looked at there is
// taken to go on: circles may be missed, and none is made up.
func (l *standing) tangled() bool { return l.steps > mostSteps }

// process is an owner, with what matters for who waits for whom.
type process struct {
	id    string
	label string
	holds int
	waits int
	left  int // how many of its waits do not end by themselves, as far as is known
}

// place is that of a node: a line, and where in it.
type place struct{ line, at int }

// graph is who waits for whom.
type graph struct {
	lines  []standing
	owners map[string]*process
	ids    map[who]string
	others []coord.Node // those that awaited looks at
}

// who is an owner, as its nodes say.
type who struct {
	host string
	pid  int
}

func (w who) String() string { return fmt.Sprintf("%s/%d", cut(w.host), w.pid) }

func newGraph(lines []standing) *graph {
	g := &graph{lines: lines, owners: make(map[string]*process), ids: make(map[who]string)}
	for i := range g.lines {
		l := &g.lines[i]
		l.all = l.all[:min(len(l.all), mostIn)]
		l.of, l.waits = make([]*process, len(l.all)), make([]bool, len(l.all))
	}
	g.findKin()
	for _, l := range g.lines {
		for j, n := range l.all {
			id := g.owner(n)
			if id == "" {
				continue
			}
			p := g.owners[id]
			if p == nil {
				p = &process{id: id, label: cut(n.Owner.Label)}
				g.owners[id] = p
			}
			if n.Owner.Label != "" && id == (who{n.Owner.Host, n.Owner.PID}.String()) {
				p.label = cut(n.Owner.Label) // its own label, not that of a process it has started
			}
			l.of[j] = p
			if n.Holds {
				p.holds++
			}
		}
		for j, p := range l.of {
			if p != nil && !l.all[j].Holds && !l.heldByAnotherThread(j) {
				l.waits[j] = true
				p.waits++
			}
		}
	}
	return g
}

// heldByAnotherThread reports whether the owner of a waiter has the line itself, in a way that shuts the waiter out. Then it is not
// the thread that has it which waits, and the owner goes on all the same.
func (l *standing) heldByAnotherThread(waiter int) bool {
	w := l.all[waiter]
	for i, p := range l.of {
		if p == l.of[waiter] && l.all[i].Holds && len(rules.For(w.Kind)(w, l.all[i:i+1])) > 0 {
			return true
		}
	}
	return false
}

// owner returns who a node belongs to, or "" if it does not say.
func (g *graph) owner(n coord.Node) string {
	if n.Owner.Host == "" {
		return ""
	}
	w := who{n.Owner.Host, n.Owner.PID}
	id, ok := g.ids[w]
	if !ok {
		id = w.String()
		g.ids[w] = id
	}
	return id
}

// findKin makes processes of this machine count as the one that has started them, if that one also stands in a line: it
// does not go on before they have ended.
func (g *graph) findKin() {
	host, _ := os.Hostname() // without one nobody is of this machine, since a node without a host has no owner
	ours := make(map[int]bool)
	for _, l := range g.lines {
		for _, n := range l.all {
			if n.Owner.Host == host && n.Owner.PID > 1 && len(ours) < mostKin {
				ours[n.Owner.PID] = true
			}
		}
	}
	for pid := range ours {
		top := pid
		for p, far := parent(pid), 0; p > 1 && far < 100; p, far = parent(p), far+1 {
			if ours[p] {
				top = p
			}
		}
		if top != pid {
			g.ids[who{host, pid}] = who{host, top}.String()
		}
	}
}

// stuck takes away all owners who will go on by themselves, then those who go on once these have gone, until nobody else
// does. It returns the owners that are left: they are in a circle, or behind one.
//
// An owner goes on when it has its turn wherever it waits. What it holds in the same line does not stand in its way:
// another thread has that.
func (g *graph) stuck() map[string]bool {
	several := false
	for _, p := range g.owners {
		p.left = p.waits
		several = several || p.waits > 1 || p.waits > 0 && p.holds > 0
	}
	if !several {
		return nil // owners that stand in only one line close no circle
	}
	var todo []place
	for i, l := range g.lines {
		for j, waits := range l.waits {
			if waits {
				todo = append(todo, place{i, j})
			}
		}
	}
	behind := make(map[string][]place) // those who may have their turn once an owner has gone
	for ; len(todo) > 0; todo = todo[1:] {
		at := todo[0]
		l := g.lines[at.line]
		if !l.waits[at.at] {
			continue
		}
		wait := g.awaited(at, true)
		for _, n := range wait {
			behind[g.owner(*n)] = append(behind[g.owner(*n)], at)
		}
		if len(wait) > 0 {
			continue
		}
		l.waits[at.at] = false
		p := l.of[at.at]
		if p.left--; p.left == 0 {
			todo = append(todo, behind[p.id]...)
			delete(behind, p.id)
		}
	}
	left := make(map[string]bool)
	for id, p := range g.owners {
		if p.left > 0 {
			left[id] = true
		}
	}
	return left
}

// awaited returns for whom a node waits among those ahead who do not go on by themselves: one node of each owner. Who waits for the
// one right ahead to have its turn, as with many permits, waits for room.
func (g *graph) awaited(at place, room bool) (wait []*coord.Node) {
	l := &g.lines[at.line]
	if l.steps += at.at; l.tangled() {
		return nil
	}
	g.others = g.others[:0]
	for i, p := range l.of[:at.at] {
		if p != nil && p != l.of[at.at] && p.left > 0 {
			g.others = append(g.others, l.all[i])
		}
	}
	if last := len(g.others) - 1; room && last >= 0 {
		g.others[last].Kind = cmp.Or(rules.Granted(g.others[last].Kind), g.others[last].Kind)
	}
	me, seen := l.all[at.at], make(map[string]bool)
	ahead := rules.For(me.Kind)(me, g.others)
	for i := range ahead {
		if id := g.owner(ahead[i]); !seen[id] {
			seen[id] = true
			wait = append(wait, &ahead[i])
		}
	}
	return wait
}

// link is a wait, with the nodes that make it one.
type link struct {
	Wait
	ids  [2]string
	asOf time.Time
}

// links returns whom the stuck owners wait for, a few for each wait.
func (g *graph) links(stuck map[string]bool) (all []link) {
	for i, l := range g.lines {
		for j, n := range l.all {
			if !l.waits[j] || !stuck[l.of[j].id] {
				continue
			}
			wait := g.awaited(place{i, j}, false)
			for _, to := range wait[:min(len(wait), Few)] {
				all = append(all, link{Wait{l.of[j].id, g.owner(*to), l.name, fmt.Sprint(n.Token)}, [2]string{n.ID, to.ID}, l.asOf})
			}
		}
	}
	return all
}

// circles returns the links within each set of owners that all wait for each other, directly or by way of others.
func circles(all []link) (found [][]link) {
	next := make(map[string][]string)
	for _, l := range all {
		next[l.From] = append(next[l.From], l.To)
	}
	of := components(next)
	by := make(map[int][]link)
	for _, l := range all {
		if of[l.From] == of[l.To] {
			by[of[l.From]] = append(by[of[l.From]], l)
		}
	}
	for _, c := range by {
		found = append(found, c)
	}
	slices.SortFunc(found, func(a, b []link) int { return cmp.Compare(a[0].From, b[0].From) })
	return found
}

// components numbers the strongly connected components of a graph by Tarjan's algorithm, without recursion: a chain may be
// long.
func components(next map[string][]string) map[string]int {
	of, index, low := make(map[string]int), make(map[string]int), make(map[string]int)
	on := make(map[string]bool)
	var stack []string
	type frame struct {
		at string
		i  int
	}
	for start := range next {
		if index[start] != 0 {
			continue
		}
		frames := []frame{{at: start}}
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			if f.i == 0 {
				index[f.at] = len(index) + 1
				low[f.at] = index[f.at]
				stack, on[f.at] = append(stack, f.at), true
			}
			if f.i < len(next[f.at]) {
				to := next[f.at][f.i]
				f.i++
				if index[to] == 0 {
					frames = append(frames, frame{at: to})
				} else if on[to] {
					low[f.at] = min(low[f.at], index[to])
				}
				continue
			}
			if low[f.at] == index[f.at] {
				for {
					top := stack[len(stack)-1]
					stack, on[top] = stack[:len(stack)-1], false
					of[top] = index[f.at]
					if top == f.at {
						break
					}
				}
			}
			done := f.at
			frames = frames[:len(frames)-1]
			if len(frames) > 0 {
				back := frames[len(frames)-1].at
				low[back] = min(low[back], low[done])
			}
		}
	}
	return of
}

// waits returns the waits worth showing: first those in circles, then those of owners that hold something or for owners
// that wait, then others.
func (g *graph) waits(inCircles []Circle) (shown []Wait) {
	seen := make(map[Wait]bool)
	add := func(w Wait) {
		if !seen[w] && len(shown) < mostWaits {
			seen[w] = true
			shown = append(shown, w)
		}
	}
	for _, c := range inCircles {
		for _, w := range c.Waits {
			w.Token = ""
			add(w)
		}
	}
	var chained, single []Wait
	for _, l := range g.lines {
		var holders []string
		for j, n := range l.all {
			if l.of[j] == nil {
				continue
			}
			id := l.of[j].id
			if n.Holds {
				if len(holders) < Few && !slices.Contains(holders, id) {
					holders = append(holders, id)
				}
				continue
			}
			for _, h := range holders {
				w := Wait{From: id, To: h, Line: l.name}
				switch {
				case h == id:
				case l.of[j].holds > 0 || g.owners[h].waits > 0:
					chained = append(chained, w)
				case len(single) < 2*mostWaits:
					single = append(single, w)
				}
			}
		}
	}
	for _, w := range append(chained, single...) {
		add(w)
	}
	return shown
}

// keyOf identifies a circle by its nodes.
func keyOf(c []link) string {
	var ids []string
	for _, l := range c {
		ids = append(ids, l.ids[:]...)
	}
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), "\n")
}

// ring is a circle that has been seen.
type ring struct {
	first time.Time
	sure  bool // all its lines were read again after first, and it was still there: so it did exist at first
}

// assess finds out who waits for whom in what was read. rings are the circles seen before.
func assess(lines []standing, rings map[string]ring, now time.Time) (
	g *graph, found []Circle, stuck map[string]bool, seen map[string]ring,
) {
	g = newGraph(lines)
	stuck = g.stuck()
	seen = make(map[string]ring)
	certain := make(map[string]bool)
	for _, c := range circles(g.links(stuck)) {
		key := keyOf(c)
		r, ok := rings[key]
		if !ok {
			r.first = now
		}
		if !r.sure {
			r.sure = !slices.ContainsFunc(c, func(l link) bool { return !l.asOf.After(r.first) })
		}
		seen[key] = r
		if !r.sure {
			continue
		}
		circle := Circle{Since: *stamp(r.first)}
		for _, l := range c {
			if len(circle.Waits) < mostWaits {
				circle.Waits = append(circle.Waits, l.Wait)
			} else {
				circle.More++
			}
			certain[l.From] = true
		}
		found = append(found, circle)
	}
	if len(certain) == 0 {
		stuck = nil
	}
	return g, found, stuck, seen
}
