//go:build !race

package multi

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/verify/model/walk"
)

// The model walks every order of steps of several callers, each with a set of locks. What a caller does next is what plan says,
// as it ships. A look at a line is one step: that a look may be old is the affair of verify/model, which shows that this only
// delays a turn.

const (
	mostLines   = 3
	mostCallers = 4
)

// caller is one of them, as it is set up.
type caller struct {
	name  string
	plan  func([]state) (ask, back []int)
	kinds [mostLines]string // "": it does not want this line
	lines []int             // those that it wants, in its order
}

func newCaller(name string, plan func([]state) (ask, back []int), kinds ...string) caller {
	c := caller{name: name, plan: plan}
	for x, k := range kinds {
		if c.kinds[x] = k; k != "" {
			c.lines = append(c.lines, x)
		}
	}
	return c
}

// oneByOne is the plan of whoever takes plain locks, one within the other.
func oneByOne(states []state) (ask, back []int) {
	if next := slices.IndexFunc(states, func(s state) bool { return s != held }); next >= 0 && states[next] == away {
		ask = append(ask, next)
	}
	return ask, nil
}

type phase byte

const (
	begins phase = iota
	takes
	works
	quits // it leaves what it stands in
	lost  // its session is over, and the service does not know that yet
	done
)

type callerState struct {
	phase  phase
	again  bool             // it has lost its session once
	states [mostLines]state // by line
	stands byte             // the lines in which it has a node
}

type world struct {
	order [mostLines][mostCallers]int8 // whose nodes stand in each line: number plus one
	c     [mostCallers]callerState
}

// setting is who is there, and what may happen to them.
type setting struct {
	callers        []caller
	giveUp, expire bool
}

func (w *world) join(x, i int) {
	at := slices.Index(w.order[x][:], 0)
	w.order[x][at] = int8(i + 1)
	w.c[i].stands |= 1 << x
}

func (w *world) leave(x, i int) {
	if at := slices.Index(w.order[x][:], int8(i+1)); at >= 0 {
		copy(w.order[x][at:], w.order[x][at+1:])
		w.order[x][mostCallers-1] = 0
	}
	w.c[i].stands &^= 1 << x
}

// free reports whether it is i's turn in a line.
func (m *setting) free(w *world, x, i int) bool {
	var ahead []driver.Node
	for _, o := range w.order[x] {
		if o == 0 || int(o-1) == i {
			break
		}
		ahead = append(ahead, driver.Node{Kind: m.callers[o-1].kinds[x], Token: driver.Token(o)})
	}
	kind := m.callers[i].kinds[x]
	return len(rules.For(kind)(driver.Node{Kind: kind}, ahead)) == 0
}

// goOn does what the plan of i says, after it has heard something.
func (m *setting) goOn(w *world, i int) {
	c, s := m.callers[i], &w.c[i]
	states := make([]state, len(c.lines))
	for k, x := range c.lines {
		states[k] = s.states[x]
	}
	if !slices.ContainsFunc(states, func(s state) bool { return s != held }) {
		s.phase = works
		return
	}
	ask, back := c.plan(states)
	for _, k := range back {
		s.states[c.lines[k]] = leaving
	}
	for _, k := range ask {
		s.states[c.lines[k]] = asks
	}
}

func (m *setting) moves(w world) (all []walk.Move[world]) {
	for i, c := range m.callers {
		add := func(change func(t *world), sure bool, what string, args ...any) {
			t := w
			change(&t)
			all = append(all, walk.Move[world]{State: t, What: fmt.Sprintf(c.name+" "+what, args...), Sure: sure, Bad: m.judge(&t)})
		}
		switch s := w.c[i]; s.phase {
		case begins:
			add(func(t *world) {
				t.c[i].phase = takes
				m.goOn(t, i)
			}, true, "begins")
		case takes:
			for _, x := range c.lines {
				m.inLine(&w, i, x, add)
			}
		case works, quits:
			if s.stands == 0 {
				add(func(t *world) { t.c[i] = callerState{phase: done} }, true, "is through")
			}
			for _, x := range c.lines {
				if s.stands>>x&1 == 1 {
					add(func(t *world) {
						t.c[i].phase = quits
						t.c[i].states[x] = away
						t.leave(x, i)
					}, true, "leaves %d", x)
				}
			}
		case lost:
			add(func(t *world) {
				for _, x := range c.lines {
					t.leave(x, i)
				}
				t.c[i] = callerState{again: true}
			}, true, "is ended by the service, and begins again")
		}
		if m.giveUp && w.c[i].phase == takes {
			add(func(t *world) { t.c[i].phase, t.c[i].states = quits, [mostLines]state{} }, false, "gives up")
		}
		if m.expire && !w.c[i].again && (w.c[i].phase == takes || w.c[i].phase == works) {
			add(func(t *world) { t.c[i].phase, t.c[i].states = lost, [mostLines]state{} }, false, "is too late")
		}
	}
	return all
}

// inLine adds what i may do in one of its lines.
func (m *setting) inLine(w *world, i, x int, add func(change func(t *world), sure bool, what string, args ...any)) {
	hears := func(is state) func(t *world) {
		return func(t *world) {
			t.c[i].states[x] = is
			m.goOn(t, i)
		}
	}
	switch stands := w.c[i].stands>>x&1 == 1; w.c[i].states[x] {
	case asks:
		switch {
		case !stands:
			add(func(t *world) { t.join(x, i) }, true, "joins %d", x)
		case m.free(w, x, i):
			add(hears(held), true, "has %d", x)
		default:
			add(hears(waits), true, "has to wait in %d", x)
		}
	case waits:
		if m.free(w, x, i) {
			add(hears(held), true, "has %d", x)
		}
	case leaving:
		add(func(t *world) {
			t.leave(x, i)
			hears(away)(t)
		}, true, "steps back from %d", x)
	}
}

// judge does not ask the rules.
func (m *setting) judge(w *world) string {
	for x := range mostLines {
		have, others, readers, out, least := 0, 0, 0, 0, 9
		for i, c := range m.callers {
			if w.c[i].states[x] != held {
				continue
			}
			have++
			switch k := c.kinds[x]; k[0] {
			case 'R':
				readers++
			case 'S':
				out += int(k[1] - '0')
				least = min(least, int(k[4]-'0'))
			default:
				others++
			}
		}
		if others > 0 && have > 1 || readers > 0 && readers < have || out > least {
			return fmt.Sprintf("two hold %d that must not", x)
		}
	}
	return ""
}

func (m *setting) stuck(w *world) string {
	for i := range m.callers {
		if w.c[i].phase != done {
			return "they wait for each other"
		}
	}
	return ""
}

// sets returns a caller for each pair of kinds in two lines.
func sets(name string, plan func([]state) (ask, back []int), kinds ...string) (all []caller) {
	for _, a := range kinds {
		for _, b := range kinds {
			all = append(all, newCaller(name, plan, a, b))
		}
	}
	return all
}

// subsets returns a caller for each set of at least two of three lines.
func subsets(name string, plan func([]state) (ask, back []int)) (all []caller) {
	for _, lines := range []string{"011", "101", "110", "111"} {
		kinds := make([]string, mostLines)
		for x := range kinds {
			if lines[x] == '1' {
				kinds[x] = rules.Lock
			}
		}
		all = append(all, newCaller(name, plan, kinds...))
	}
	return all
}

// choices returns every way to have n of them, with repetition.
func choices(n int, from []caller) (all [][]caller) {
	if n == 0 {
		return [][]caller{nil}
	}
	for i, c := range from {
		for _, rest := range choices(n-1, from[i:]) {
			all = append(all, append([]caller{c}, rest...))
		}
	}
	return all
}

func search(t *testing.T, m *setting) (found string, states int) {
	limit := 300_000
	if os.Getenv("TURNWISE_LONG") != "" {
		limit = 20_000_000
	}
	r, whole := walk.Search(world{}, m.moves, m.stuck, limit)
	if !whole && os.Getenv("TURNWISE_LONG") != "" {
		t.Errorf("%v: not walked to the end", m.callers)
	}
	return r.String(), r.States
}

func TestWhoeverTakesSeveralNeverWaitsInACircle(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	one := append(append(sets("one", oneByOne, rules.Lock), newCaller("single", oneByOne, rules.Lock)), newCaller("single", oneByOne, "", rules.Lock))
	for _, f := range []struct {
		name           string
		n              int
		from           []caller
		giveUp, expire bool
	}{
		{"two lines", 2, sets("multi", plan, rules.Lock, rules.Reader, "S1of2", "S2of2"), true, true},
		{"three callers", 3, sets("multi", plan, rules.Lock, rules.Reader), true, false},
		{"three lines", 3, subsets("multi", plan), false, false},
		{"beside those who lock one by one", 3, append(sets("multi", plan, rules.Lock, rules.Reader), one...), false, false},
		{"three lines, beside those who lock one by one", 3, append(subsets("multi", plan), subsets("one", oneByOne)...), false, false},
	} {
		t.Run(f.name, func(t *testing.T) {
			all, states := choices(f.n, f.from), 0
			for _, callers := range all {
				found, n := search(t, &setting{callers, f.giveUp, f.expire})
				states += n
				if found != "" {
					t.Fatalf("%v: %s", callers, found)
				}
			}
			t.Logf("%d settings, %d states", len(all), states)
		})
	}
}

// What would not do: each is found.
func TestOtherPlansWaitInACircle(t *testing.T) {
	both := [...]string{rules.Lock, rules.Lock}
	never := func(states []state) (ask, back []int) {
		ask, _ = plan(states)
		return ask, nil
	}
	reversed := newCaller("reversed", oneByOne, both[:]...)
	slices.Reverse(reversed.lines)
	for name, callers := range map[string][]caller{
		"nobody steps back":                 {newCaller("a", never, both[:]...), newCaller("b", never, both[:]...)},
		"one who locks in the other order":  {newCaller("a", plan, both[:]...), reversed},
		"one of two steps back, one waits":  {newCaller("a", plan, both[:]...), newCaller("b", never, both[:]...)},
		"the wrong order, for one line out": {newCaller("one", oneByOne, both[:]...), reversed},
	} {
		t.Run(name, func(t *testing.T) {
			found, states := search(t, &setting{callers: callers})
			if !strings.Contains(found, "wait for each other") {
				t.Errorf("found %q in %d states", found, states)
			}
		})
	}
}
