package coord

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	mostLooked   = 8           // lines of the caller's client that are looked at for a circle
	mostFollowed = 8           // lines of others that are, for a longer one
	mostIn       = 1000        // contenders of a line that are
	circleFor    = time.Second // how long all that may take
	surveyShare  = 20          // a client that lists the lines for this does nothing of the kind for so many times as long
)

// explain looks for what a wait that ran out did not see. Its context is the caller's.
func (a *acquire) explain(ctx context.Context, err error) error {
	var e *Error
	if a.maxWait > 0 && a.maxWait != forever && ctx.Err() == nil && errors.Is(err, ErrBusy) && errors.As(err, &e) {
		a.nameCircle(ctx, e)
	}
	return err
}

// nameCircle is for a call whose MaxWait has run out. If the one who has the line waits for what this client holds, or for somebody
// who does, and so on, none of them goes on before one gives up, so the error says that rather than that the line is busy. It costs
// a look at the line and one at each line that the client holds; whoever holds nothing looks at nothing. For a longer circle the
// lines are listed, and a few of them looked at, but only if somebody waits for what the client holds.
func (a *acquire) nameCircle(ctx context.Context, e *Error) {
	held := a.holdsElsewhere()
	if len(held) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(a.maxWait, circleFor))
	defer cancel()
	ahead, err := a.Line(ctx, a.line)
	if err != nil {
		return
	}
	c := circle{acquire: a, has: make(map[process]Node), wants: make(map[process]string), waits: make(map[process][]*owned)}
	for _, n := range ahead[:min(len(ahead), mostIn)] {
		if p := processOf(n.Owner); n.Holds && p != (process{}) && p != processOf(a.owner) {
			c.has[p] = n
		}
	}
	if len(c.has) == 0 {
		return
	}
	lines := slices.Sorted(maps.Keys(held))
	for _, line := range lines {
		nodes, err := a.Line(ctx, line)
		if err != nil {
			return
		}
		c.seeBehind(line, held[line], nodes)
		if c.closed(e) {
			return
		}
	}
	if len(c.wants) > 0 {
		c.follow(ctx, e, append(lines, a.line))
	}
}

// circle is what is known of who waits for whom.
type circle struct {
	*acquire
	has   map[process]Node     // who has the line that was asked for
	wants map[process]string   // who waits for what this client holds, and in which line
	waits map[process][]*owned // for what the others wait
}

// owned is a line, and who has it. All who wait there wait for that.
type owned struct {
	line string
	by   []process
}

// seeBehind notes who waits behind what this client holds in a line.
func (c *circle) seeBehind(line string, mine []*Hold, nodes []Node) {
	at := slices.IndexFunc(nodes, func(n Node) bool { return slices.ContainsFunc(mine, func(h *Hold) bool { return h.Node().ID == n.ID }) })
	if at < 0 {
		return
	}
	for _, n := range nodes[at+1:] {
		if p := processOf(n.Owner); !n.Holds && p != (process{}) && p != processOf(c.owner) && c.wants[p] == "" {
			c.wants[p] = line
		}
	}
}

// follow looks at lines of others until a circle is closed, those first whose names are most like the known ones.
func (c *circle) follow(ctx context.Context, e *Error, known []string) {
	if !c.surveys() {
		return
	}
	defer c.surveyed(time.Now())
	names, err := c.Lines(ctx, folderOf(known))
	if err != nil {
		return
	}
	names = slices.DeleteFunc(names, func(n string) bool { return slices.Contains(known, n) })
	likeness := make(map[string]int, len(names))
	for _, n := range names {
		for _, k := range known {
			likeness[n] = max(likeness[n], len(common(n, k)))
		}
	}
	slices.SortStableFunc(names, func(x, y string) int { return likeness[y] - likeness[x] })
	for _, line := range names[:min(len(names), mostFollowed)] {
		nodes, err := c.Line(ctx, line)
		switch {
		case errors.Is(err, ErrDenied):
			continue // somebody has spoilt it, or lets nobody see it: that hides no other
		case err != nil:
			return
		}
		c.see(line, nodes)
		if c.closed(e) {
			return
		}
	}
}

// see notes who waits for whom in a line of others. Whoever has the line itself goes on: another thread waits there.
func (c *circle) see(line string, nodes []Node) {
	t, there := &owned{line: line}, make(map[process]bool)
	for _, n := range nodes[:min(len(nodes), mostIn)] {
		p := processOf(n.Owner)
		switch {
		case p == (process{}) || p == processOf(c.owner) || there[p]:
		case n.Holds:
			t.by = append(t.by, p)
		default:
			c.waits[p] = append(c.waits[p], t)
		}
		there[p] = true
	}
}

// closed reports whether what is known closes a circle, and says so in the error.
func (c *circle) closed(e *Error) bool {
	type way struct {
		at   process
		said string
		long int
	}
	first := slices.SortedFunc(maps.Keys(c.has), func(p, q process) int { return cmp.Or(cmp.Compare(p.host, q.host), p.pid-q.pid) })
	seen, through := make(map[process]bool), make(map[*owned]bool)
	for _, start := range first {
		for todo := []way{{at: start, long: 2}}; len(todo) > 0; todo = todo[1:] {
			w := todo[0]
			if seen[w.at] {
				continue
			}
			seen[w.at] = true
			if line := c.wants[w.at]; line != "" {
				e.Blocker, e.Circle = c.has[start], line
				if w.long == 2 {
					e.Err = fmt.Errorf("%w: each waits for the other, since this client has %q", e.Err, shorten(line))
				} else {
					e.Err = fmt.Errorf("%w: %d processes wait in a circle: %s%v for %q, which this client has", e.Err, w.long, w.said, w.at, shorten(line))
				}
				return true
			}
			for _, t := range c.waits[w.at] {
				if through[t] {
					continue // whoever has that line is in todo already
				}
				through[t] = true
				said := w.said + fmt.Sprintf("%v for %q, ", w.at, shorten(t.line))
				for _, p := range t.by {
					todo = append(todo, way{p, said, w.long + 1})
				}
			}
		}
	}
	return false
}

// surveys reports whether the client may list the lines now: that can be dear where there are many, and in a busy program many waits
// run out.
func (c *circle) surveys() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.nextSurvey) {
		return false
	}
	c.nextSurvey = time.Now().Add(circleFor)
	return true
}

func (c *circle) surveyed(began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextSurvey = time.Now().Add(surveyShare * time.Since(began))
}

// folderOf returns what all names have in common, up to a slash.
func folderOf(names []string) string {
	all := names[0]
	for _, n := range names {
		all = common(all, n)
	}
	return all[:strings.LastIndexByte(all, '/')+1]
}

// common returns with what both names begin.
func common(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

// holdsElsewhere returns what this client holds in other lines.
func (a *acquire) holdsElsewhere() map[string][]*Hold {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.Client.session == nil {
		return nil
	}
	held := make(map[string][]*Hold)
	for line, holds := range a.Client.session.lines {
		if line != a.line && len(held) < mostLooked {
			held[line] = slices.Clone(holds)
		}
	}
	return held
}

// process is what tells one Owner from another.
type process struct {
	host string
	pid  int
}

func (p process) String() string { return fmt.Sprintf("%s/%d", Printable(shorten(p.host)), p.pid) }

func processOf(o Owner) process {
	if o.Host == "" {
		return process{}
	}
	return process{o.Host, o.PID}
}
