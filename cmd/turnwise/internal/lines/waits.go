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
}

const (
	mostWaits = 200  // how many a board shows
	mostIn    = 1000 // contenders of a line that are looked at
	mostKin   = 2000 // processes that are looked up
)

// standing is a line, and who is left in it.
type standing struct {
	name string
	asOf time.Time
	all  []coord.Node
	left []coord.Node
}

// process is an owner, with what matters for who waits for whom.
type process struct {
	id    string
	label string
	lines []int          // those it stands in; a line appears as often as it stands there
	waits map[string]int // the lines it waits in, by the IDs of its nodes
	holds int
}

// graph is who waits for whom.
type graph struct {
	lines  []standing
	owners map[string]*process
	ids    map[who]string
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
		l.all, l.left = l.all[:min(len(l.all), mostIn)], nil
	}
	g.findKin()
	for i, l := range g.lines {
		for _, n := range l.all {
			id := g.owner(n)
			if id == "" {
				continue
			}
			p := g.owners[id]
			if p == nil {
				p = &process{id: id, label: cut(n.Owner.Label), waits: make(map[string]int)}
				g.owners[id] = p
			}
			if n.Owner.Label != "" && id == (who{n.Owner.Host, n.Owner.PID}.String()) {
				p.label = cut(n.Owner.Label) // its own label, not that of a process it has started
			}
			p.lines = append(p.lines, i)
			switch {
			case n.Holds:
				p.holds++
			case !g.heldByAnotherThread(l.all, n):
				p.waits[n.ID] = i
			}
		}
	}
	return g
}

// heldByAnotherThread reports whether the owner of a waiter has the line itself, in a way that shuts the waiter out. Then it is not
// the thread that has it which waits, and the owner goes on all the same.
func (g *graph) heldByAnotherThread(line []coord.Node, waiter coord.Node) bool {
	id := g.owner(waiter)
	return slices.ContainsFunc(line, func(n coord.Node) bool {
		return n.Holds && g.owner(n) == id && len(rules.For(waiter.Kind)(waiter, []coord.Node{n})) > 0
	})
}

// counts reports whether a node waits, and its owner with it.
func (g *graph) counts(n coord.Node) bool {
	p := g.owners[g.owner(n)]
	if p == nil || n.Holds {
		return false
	}
	_, waits := p.waits[n.ID]
	return waits
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
	left := make(map[string]bool)
	waiting := make(map[string]int)
	several := false
	for id, p := range g.owners {
		if len(p.waits) > 0 {
			left[id], waiting[id] = true, len(p.waits)
			several = several || p.holds > 0 || len(p.waits) > 1
		}
	}
	if !several {
		return nil // owners that stand in only one line close no circle
	}
	served := make([]map[coord.Token]bool, len(g.lines))
	todo := make([]int, len(g.lines))
	for i := range g.lines {
		todo[i], served[i] = i, make(map[coord.Token]bool)
	}
	for len(todo) > 0 && len(left) > 0 {
		var again []int
		for _, i := range todo {
			l := &g.lines[i]
			from := l.all
			if l.left != nil {
				from = l.left
			}
			l.left = slices.DeleteFunc(slices.Clone(from), func(n coord.Node) bool { return !left[g.owner(n)] })
			turns := rules.Turns(l.left)
			several := g.several(l.left)
			for j, n := range l.left {
				id := g.owner(n)
				if !g.counts(n) || served[i][n.Token] || !turns[j] && !(several[id] && g.mineOnly(l.left, j)) {
					continue
				}
				served[i][n.Token] = true
				if waiting[id]--; waiting[id] == 0 {
					delete(left, id)
					again = append(again, g.owners[id].lines...)
				}
			}
		}
		slices.Sort(again)
		todo = slices.Compact(again)
	}
	return left
}

// several returns which owners stand more than once among nodes.
func (g *graph) several(nodes []coord.Node) map[string]bool {
	seen := make(map[string]bool)
	for _, n := range nodes {
		id := g.owner(n)
		_, before := seen[id]
		seen[id] = before
	}
	return seen
}

// mineOnly reports whether node j would have its turn if its owner had no other nodes in the line.
func (g *graph) mineOnly(line []coord.Node, j int) bool {
	return len(rules.For(line[j].Kind)(line[j], g.others(line, j))) == 0
}

// others returns the nodes ahead of j that belong to other owners.
func (g *graph) others(line []coord.Node, j int) (ahead []coord.Node) {
	id := g.owner(line[j])
	for _, n := range line[:j] {
		if g.owner(n) != id {
			ahead = append(ahead, n)
		}
	}
	return ahead
}

// link is a wait, with the nodes that make it one.
type link struct {
	Wait
	ids  [2]string
	asOf time.Time
}

// links returns whom the stuck owners wait for.
func (g *graph) links(stuck map[string]bool) (all []link) {
	for _, l := range g.lines {
		for j, n := range l.left {
			from := g.owner(n)
			if !g.counts(n) || !stuck[from] {
				continue
			}
			for _, to := range rules.For(n.Kind)(n, g.others(l.left, j)) {
				if stuck[g.owner(to)] {
					all = append(all, link{Wait{from, g.owner(to), l.name, fmt.Sprint(n.Token)}, [2]string{n.ID, to.ID}, l.asOf})
				}
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
		for _, n := range l.all {
			id := g.owner(n)
			if id == "" {
				continue
			}
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
				case g.owners[id].holds > 0 || len(g.owners[h].waits) > 0:
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
			if !slices.Contains(circle.Waits, l.Wait) {
				circle.Waits = append(circle.Waits, l.Wait)
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
