package model

import (
	"fmt"

	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/verify/model/walk"
)

// machine makes the moves of a configuration.
type machine struct {
	Config
	rules map[asked]byte
}

// Search walks through every state of a configuration, but through no more than limit.
func Search(cfg Config, limit int) (r walk.Result, whole bool) {
	m := &machine{cfg, make(map[asked]byte)}
	return walk.Search(state{}, m.moves, m.asleep, limit)
}

func (m *machine) moves(s state) []walk.Move[state] {
	var all []walk.Move[state]
	add := func(t state, sure bool, bad, what string, args ...any) {
		t.forgetPast()
		if bad == "" {
			bad = m.judge(&t)
		}
		all = append(all, walk.Move[state]{State: t, What: fmt.Sprintf(what, args...), Sure: sure, Bad: bad})
	}
	if int(s.joined) < len(m.Kinds) {
		t, i := s, int(s.joined)
		t.joined++
		t.happen(joins, i)
		t.c[i] = contender{phase: looking, at: t.happened}
		if m.StaleJoin {
			t.c[i].at = 0
		}
		add(t, false, "", "%d joins as %s", i, m.Kinds[i])
	}
	now := s.now()
	for i := range m.Kinds {
		c := s.c[i]
		if c.phase == lost {
			t := s
			if now.standing&bit(i) != 0 {
				t.happen(leaves, i)
			}
			t.c[i].phase = done
			add(t, true, "", "the service expires %d", i)
		}
		if !c.active() {
			continue
		}
		m.deliver(s, i, add)
		m.act(s, i, now, add)
		m.trouble(s, i, now, add)
	}
	return all
}

type adder func(t state, sure bool, bad, what string, args ...any)

// deliver moves i's stream on.
func (m *machine) deliver(s state, i int, add adder) {
	c := s.c[i]
	if c.at == s.happened {
		return
	}
	t := s
	t.c[i].at++
	o, j := split(s.ops[c.at])
	m.fire(&t.c[i], i, o, j)
	add(t, true, "", "%d hears of what %d did", i, j)
	if !m.Reconnect || c.cut {
		return
	}
	for to := c.at + 1; to <= s.happened; to++ {
		t := s
		d := &t.c[i]
		d.cut, d.at = true, to
		l := s.line(to)
		was := s.line(c.at)
		for j := range m.Kinds {
			switch {
			case j == i && d.own && l.standing&bit(i) == 0:
				d.hear(gone, i)
			case d.watch&bit(j) != 0 && (l.standing&bit(j) == 0 || (l.downgraded^was.downgraded)&bit(j) != 0):
				d.watch &^= bit(j)
				d.hear(gone, j)
			}
		}
		add(t, false, "", "%d reconnects", i)
	}
}

// fire turns what j did into news for i, if i has a watch there.
func (m *machine) fire(c *contender, i int, o op, j int) {
	if i == j {
		if c.own && (o == leaves || o == leavesMarked || o == isRemoved) {
			c.hear(gone, i)
		}
		return
	}
	if c.watch&bit(j) == 0 {
		return
	}
	switch o {
	case leaves, isRemoved, downgrades:
		c.watch &^= bit(j)
		c.hear(gone, j)
	case leavesMarked:
		c.watch &^= bit(j)
		c.hear(changed, j)
	case changes:
		// The node still stands when the watch is set again, so the change is forgotten. A driver that does not look takes it
		// for the mark.
		if m.AnyChangeIsMark {
			c.watch &^= bit(j)
			c.hear(changed, j)
		}
	}
}

// act adds what i may do by itself.
func (m *machine) act(s state, i int, now line, add adder) {
	c := s.c[i]
	switch c.phase {
	case looking:
		t := s
		m.look(&t, i)
		add(t, true, "", "%d looks: %v", i, t.c[i].phase)
	case arming:
		t := s
		d := &t.c[i]
		j := lowest(d.wait &^ d.watch)
		l := s.line(d.at)
		if l.standing&bit(j) == 0 || (l.downgraded^d.seenAs)&bit(j) != 0 {
			d.phase = looking
			add(t, true, "", "%d finds %d gone", i, j)
			break
		}
		d.watch |= bit(j)
		if d.wait&^d.watch == 0 {
			d.phase = waiting
		}
		add(t, true, "", "%d watches %d", i, j)
	case holding:
		m.release(s, i, now, add)
	}
	if c.pending > 0 {
		m.wake(s, i, add)
	}
}

func (m *machine) look(s *state, i int) {
	c := &s.c[i]
	l := s.line(c.at)
	for k := byte(0); k < c.pending; {
		if c.heard[k]&7 == byte(i) {
			k++
		} else {
			c.forget(k)
		}
	}
	if l.standing&bit(i) == 0 && !m.StaleJoin {
		c.phase = told
		return
	}
	c.own = true
	c.wait = m.waitFor(l, i)
	if c.wait == 0 {
		c.tell = c.waited || l.standing>>(i+1) != 0 && !m.BehindOverlooked
		m.enter(c, m.kind(l, i), l.standing&(bit(i)-1) == 0)
		return
	}
	c.waited = true
	c.seenAs = l.downgraded & c.wait
	c.watch &= c.wait
	c.phase = arming
	if c.wait&^c.watch == 0 {
		c.phase = waiting
	}
}

// enter grants i its turn. A rule that ignores some kinds cannot know that nobody at all was ahead.
func (m *machine) enter(c *contender, kind string, nobodyAhead bool) {
	c.phase = holding
	c.tell = c.tell && rules.Granted(kind) != "" && !m.GrantedSilently
	c.waited = false
	c.alone = nobodyAhead && kind != rules.Reader || m.EveryHolderMarks
}

// wake is what i makes of the news. It looks at its own node first, unless the opposite is planted.
func (m *machine) wake(s state, i int, add adder) {
	c := s.c[i]
	ownGone := false
	for k := range c.pending {
		ownGone = ownGone || c.heard[k] == byte(gone)<<3|byte(i)
	}
	for k := range c.pending {
		n, j := news(c.heard[k]>>3), int(c.heard[k]&7)
		t := s
		if j == i {
			t.c[i].phase = told
			add(t, true, "", "%d learns that its own node is gone", i)
			continue
		}
		if c.phase != waiting || ownGone && !m.OwnNodeLast {
			continue
		}
		d := &t.c[i]
		d.forget(k)
		l := s.line(c.at)
		if n == changed && (trusted(m.kind(l, j)) || m.EveryHolderMarks || m.DowngradeMarks || m.AnyChangeIsMark) {
			bad := ""
			if ownGone {
				bad = "enters though its own node is gone"
			}
			m.enter(d, m.kind(l, i), true)
			add(t, true, bad, "%d is handed over to by %d", i, j)
			continue
		}
		d.phase = looking
		add(t, true, "", "%d is woken by %d", i, j)
	}
}

func (m *machine) release(s state, i int, now line, add adder) {
	t := s
	t.c[i].phase = done
	if now.standing&bit(i) != 0 {
		o := leaves
		if s.c[i].alone && (trusted(m.kind(now, i)) || m.EveryHolderMarks) {
			o = leavesMarked
		}
		t.happen(o, i)
	}
	add(t, false, "", "%d releases", i)
	if now.standing&bit(i) == 0 {
		return
	}
	if s.c[i].tell {
		t := s
		t.c[i].tell = false
		t.happen(downgrades, i)
		add(t, true, "", "%d says that it is granted", i)
	}
	if m.Amend && s.amended == 0 {
		t := s
		t.amended = 1
		t.happen(changes, i)
		add(t, false, "", "%d writes to its node", i)
	}
	if m.Downgrade && m.kind(now, i) == rules.Writer {
		t := s
		t.c[i].alone = false
		t.happen(downgrades, i)
		if m.DowngradeMarks { // to those who wait, it looks as if the writer had left
			for j := range m.Kinds {
				if d := &t.c[j]; j != i && d.watch&bit(i) != 0 && d.at == s.happened {
					d.at = t.happened
					d.watch &^= bit(i)
					d.hear(changed, i)
				}
			}
		}
		add(t, false, "", "%d downgrades", i)
	}
}

// trouble adds what may happen to i.
func (m *machine) trouble(s state, i int, now line, add adder) {
	c := s.c[i]
	if m.GiveUp && c.phase != holding {
		t := s
		t.c[i].phase = done
		if now.standing&bit(i) != 0 {
			t.happen(leaves, i)
		}
		add(t, false, "", "%d gives up", i)
	}
	if m.Expire {
		t := s
		t.c[i].phase = lost
		add(t, false, "", "the deadline of %d passes", i)
	}
	if m.ExpireFirst && now.standing&bit(i) != 0 {
		t := s
		t.happen(leaves, i)
		add(t, false, "", "the service expires %d, which does not know", i)
	}
	if m.Remove && now.standing&bit(i) != 0 {
		t := s
		t.removed |= bit(i)
		t.happen(isRemoved, i)
		add(t, false, "", "an operator removes %d", i)
	}
}

// judge looks for holders that exclude each other. One that an operator removed is excused until it hears of it.
func (m *machine) judge(s *state) string {
	var holders []int
	for i := range m.Kinds {
		if s.c[i].phase == holding && s.removed&bit(i) == 0 {
			holders = append(holders, i)
		}
	}
	return m.conflict(holders, s.now())
}

// asleep looks for a waiter who could go, in a state in which nothing more will happen by itself.
func (m *machine) asleep(s *state) string {
	now := s.now()
	for i := range m.Kinds {
		if s.c[i].phase == waiting && now.standing&bit(i) != 0 && m.free(now, i) {
			return fmt.Sprintf("%d could go, and nothing will wake it", i)
		}
	}
	return ""
}

// free is the judge's view of whether i could hold beside all who stand ahead of it.
func (m *machine) free(l line, i int) bool {
	with := []int{}
	for j := range i {
		if l.standing&bit(j) != 0 {
			with = append(with, j)
		}
	}
	if len(with) > 0 && permits(m.kind(l, i)) {
		return m.conflict(append(with, i), l) == ""
	}
	for _, j := range with {
		if m.conflict([]int{j, i}, l) != "" {
			return false
		}
	}
	return true
}

func lowest(set byte) int {
	for i := range most {
		if set&bit(i) != 0 {
			return i
		}
	}
	return most
}
