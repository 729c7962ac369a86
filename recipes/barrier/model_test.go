//go:build !race

package barrier

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/verify/model/walk"
)

// The model walks every order of steps of several callers who come again and again, while sessions end. What a caller does next is
// what place says, as it ships. Each request is a step of its own, and a caller may act on what it has seen as late as it likes.

const (
	modelCallers = 4
	modelLine    = 6
)

// stood is a node: whose, and which round its mark says; 0 is none.
type stood struct {
	token  uint8
	number uint8
	last   uint8
}

type stage byte

const (
	absent stage = iota // it is about to come
	looks               // it waits for a view, or acts on it
	asking              // for the memo
	sure                // whether it still stands
	writes              // the memo
	tells               // by its mark
	inside
	lostIt  // it has heard that its place has gone
	counted // it is told so
)

type modelCaller struct {
	stage  stage
	token  uint8
	before int8
	view   [modelLine]stood // what it has seen
	next   stood            // the round that it goes on with, or begins
	rounds uint8            // how many it has gone on in
}

type modelWorld struct {
	line    [modelLine]stood
	issued  uint8 // tokens
	memo    stood
	ends    uint8 // sessions that have been ended
	callers [modelCallers]modelCaller
	told    [8]uint8 // how many have gone on in each round
}

type modelSetting struct {
	size, callers   int
	rounds, expires uint8
	mute            bool // who asks for the memo may get no answer
	sees            func(*place, []coord.Node) (step, round)
	hears           func(*place, round, []coord.Node) (step, round)
}

func (m *modelSetting) nodes(line *[modelLine]stood) (all []coord.Node) {
	for _, n := range line {
		if n.token > 0 {
			all = append(all, coord.Node{Token: coord.Token(n.token), Data: mark{m.size, n.round()}.encode()})
		}
	}
	return all
}

func (n stood) round() round { return round{uint64(n.number), coord.Token(n.last)} }

func (w *modelWorld) at(token uint8) int {
	return slices.IndexFunc(w.line[:], func(n stood) bool { return token > 0 && n.token == token })
}

func (w *modelWorld) leave(token uint8) {
	if at := w.at(token); at >= 0 {
		copy(w.line[at:], w.line[at+1:])
		w.line[modelLine-1] = stood{}
	}
}

// goesTo has a caller follow what place says.
func (c *modelCaller) goesTo(s step, r round) {
	c.next = stood{c.token, uint8(r.number), uint8(r.last)}
	switch s {
	case goesOn:
		c.stage = inside
	case asks:
		c.stage = asking
	case confirms:
		c.stage = sure
	case begins:
		c.stage = writes
	default:
		c.stage, c.next = looks, stood{}
	}
}

func (m *modelSetting) moves(w modelWorld) (all []walk.Move[modelWorld]) {
	for i := range m.callers {
		add := func(sure bool, what string, change func(t *modelWorld, c *modelCaller)) {
			t := w
			change(&t, &t.callers[i])
			all = append(all, walk.Move[modelWorld]{State: t, What: fmt.Sprint("caller ", i, " ", what), Sure: sure, Bad: m.judge(&t)})
		}
		c := w.callers[i]
		stands := w.at(c.token) >= 0
		do := func(what string, ask func(p *place, c *modelCaller) (step, round)) {
			add(true, what, func(t *modelWorld, c *modelCaller) {
				p := place{m.size, coord.Token(c.token), int(c.before)}
				s, r := ask(&p, c)
				c.before = int8(p.before)
				c.goesTo(s, r)
			})
		}
		switch c.stage {
		case absent:
			if c.rounds < m.rounds && w.issued < 12 {
				add(true, "comes", func(t *modelWorld, c *modelCaller) {
					t.issued++
					*c = modelCaller{stage: looks, token: t.issued, before: -1, rounds: c.rounds}
					t.line[t.at0()] = stood{token: t.issued}
				})
			}
		case looks:
			if c.view != w.line {
				do("sees the line", func(p *place, c *modelCaller) (step, round) {
					c.view = w.line
					return m.sees(p, m.nodes(&c.view))
				})
			}
		case asking:
			do("reads the memo", func(p *place, c *modelCaller) (step, round) { return m.hears(p, w.memo.round(), m.nodes(&c.view)) })
			if m.mute && c.view != w.line {
				add(false, "has no answer, and looks again before it asks again", func(t *modelWorld, c *modelCaller) { c.view = w.line })
			}
		case sure:
			add(true, "looks once more", func(t *modelWorld, c *modelCaller) {
				if c.stage = inside; !stands {
					c.stage = lostIt
				}
			})
		case writes:
			add(true, "writes the memo", func(t *modelWorld, c *modelCaller) {
				if c.stage = lostIt; stands {
					t.memo, c.stage = stood{0, c.next.number, c.next.last}, tells
				}
			})
		case tells:
			add(true, "tells", func(t *modelWorld, c *modelCaller) {
				if c.stage = inside; stands {
					t.line[t.at(c.token)] = c.next
				}
			})
		case inside:
			add(true, "goes on", func(t *modelWorld, c *modelCaller) {
				t.told[c.next.number]++
				t.leave(c.token)
				*c = modelCaller{rounds: c.rounds + 1}
			})
		case lostIt:
			add(true, "comes again", func(t *modelWorld, c *modelCaller) {
				rounds := c.rounds
				if t.memo.round().reaches(coord.Token(c.token)) {
					rounds++ // it is told that it may have been counted
				}
				*c = modelCaller{rounds: rounds}
			})
		}
		if stands && w.ends < m.expires {
			add(false, "loses its session", func(t *modelWorld, c *modelCaller) {
				t.ends++
				t.leave(c.token)
			})
		}
		if c.token > 0 && !stands && (c.stage == looks || c.stage == asking) {
			add(true, "hears that its place has gone", func(t *modelWorld, c *modelCaller) { c.stage = lostIt })
		}
	}
	return all
}

// at0 is the first free place.
func (w *modelWorld) at0() int {
	return slices.IndexFunc(w.line[:], func(n stood) bool { return n.token == 0 })
}

func (m *modelSetting) judge(w *modelWorld) string {
	for r, n := range w.told {
		if int(n) > m.size {
			return fmt.Sprintf("%d went on in round %d", n, r)
		}
		if w.ends == 0 && r > 0 && r < int(w.memo.number) && int(n) < m.size {
			return fmt.Sprintf("round %d has begun, and in the one before were %d", w.memo.number, n)
		}
	}
	return ""
}

func (m *modelSetting) stuck(w *modelWorld) string {
	n := 0
	for _, c := range w.callers {
		if c.stage != looks {
			continue
		}
		if n++; w.memo.round().reaches(coord.Token(c.token)) {
			return "one waits for ever, and its round has begun"
		}
	}
	if n >= m.size {
		return fmt.Sprintf("%d wait for ever", n)
	}
	return ""
}

func (m *modelSetting) walk() (found string, states int, whole bool) {
	limit := 150_000
	if os.Getenv("TURNWISE_LONG") != "" {
		limit = 20_000_000
	}
	r, whole := walk.Search(modelWorld{}, m.moves, m.stuck, limit)
	return r.String(), r.States, whole
}

func TestEveryRoundHasAsManyAsItTakes(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	for name, m := range map[string]modelSetting{
		"two of two":                   {size: 2, callers: 2, rounds: 3, expires: 2, mute: true},
		"two of three":                 {size: 2, callers: 3, rounds: 2, expires: 1, mute: true},
		"three of three":               {size: 3, callers: 3, rounds: 2, expires: 1},
		"two of four, no session ends": {size: 2, callers: 4, rounds: 1},
	} {
		t.Run(name, func(t *testing.T) {
			m.sees, m.hears = (*place).sees, (*place).hears
			found, states, whole := m.walk()
			if found != "" {
				t.Fatal(found)
			}
			t.Logf("%d states, to the end: %v", states, whole)
		})
	}
}

// What would not do: each is found.
func TestOtherBarriersAreWrong(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	for name, c := range map[string]struct {
		want  string
		sees  func(*place, []coord.Node) (step, round)
		hears func(*place, round, []coord.Node) (step, round)
	}{
		"whom the round reaches goes on": {"went on in round", (*place).sees, func(p *place, latest round, all []coord.Node) (step, round) {
			s, r := p.hears(latest, all)
			if s == confirms {
				s = goesOn
			}
			return s, r
		}},
		"all who are there go on": {"went on in round", (*place).sees, func(p *place, latest round, all []coord.Node) (step, round) {
			s, r := p.hears(latest, all)
			if s == begins {
				r.last = all[len(all)-1].Token
			}
			return s, r
		}},
		"it asks only if it may begin": {"waits for ever", func(p *place, all []coord.Node) (step, round) {
			s, r := p.sees(all)
			if s == asks && !p.mayBegin(all) {
				s = waits
			}
			return s, r
		}, (*place).hears},
		"not only the first begins": {"", func(p *place, all []coord.Node) (step, round) {
			s, r := p.sees(all)
			if s == waits && len(all) >= p.size && p.at(all) >= 0 {
				s = asks
			}
			return s, r
		}, func(p *place, latest round, all []coord.Node) (step, round) {
			s, r := p.hears(latest, all)
			if s == waits && len(all) >= p.size {
				s, r = begins, round{latest.number + 1, all[p.size-1].Token}
			}
			return s, r
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, m := range []modelSetting{{size: 2, callers: 3, rounds: 2, expires: 1}, {size: 2, callers: 3, rounds: 2}} {
				m.sees, m.hears = c.sees, c.hears
				if found, _, _ := m.walk(); found != "" && strings.Contains(found, c.want) {
					return
				}
			}
			t.Error("nothing was found")
		})
	}
}
