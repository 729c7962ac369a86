package registers

import (
	"fmt"

	"github.com/turnwise/turnwise/verify/model/walk"
)

type machine struct{ Config }

// Search walks through every state of a configuration, but through no more than limit.
func Search(cfg Config, limit int) (r walk.Result, whole bool) {
	m := &machine{cfg}
	return walk.Search(state{}, m.moves, m.stuck, limit)
}

type adder func(t state, sure bool, what string, args ...any)

func (m *machine) moves(s state) []walk.Move[state] {
	var all []walk.Move[state]
	add := func(t state, sure bool, what string, args ...any) {
		bad := m.judge(&t)
		if !m.CountedVersions {
			t.renumber()
		}
		all = append(all, walk.Move[state]{State: t, What: fmt.Sprintf(what, args...), Sure: sure, Bad: bad})
	}
	for i := range m.Processes {
		p := s.p[i]
		if p.phase == away { // they are alike, so they come in order
			t := s
			t.p[i].phase = joining
			add(t, true, "%d wants to join", i)
			break
		}
		if p.phase == lost && s.ended&bit(i) == 0 {
			t := s
			t.ended |= bit(i)
			add(t, true, "the session of %d is ended by others", i)
		}
		if !p.active() {
			continue
		}
		m.hear(s, i, add)
		m.act(s, i, add)
		m.trouble(s, i, add)
	}
	for k, r := range s.late {
		if r.sent {
			t := s
			t.late[k] = swap{}
			if m.apply(&t, r) {
				add(t, false, "a swap comes late, and is applied")
			}
			t = s
			t.late[k] = swap{}
			add(t, true, "a swap that is late never comes")
		}
	}
	m.operate(s, add)
	m.delete(s, add)
	return all
}

// apply is what the store does with a swap. It tells those whom it concerns.
func (m *machine) apply(s *state, r swap) bool {
	if s.line.version == r.next.version && r.next.version != 0 {
		return true // an earlier try was applied
	}
	if s.line.version != r.old {
		return false
	}
	before := s.greatest
	for _, n := range r.next.nodes[:r.next.n] {
		had, there := s.line.stands(int(n.who))
		if there && had == n {
			continue
		}
		if n.token <= before {
			s.contradict = 1
		}
		s.greatest = max(s.greatest, n.token)
	}
	s.line = r.next
	if !m.ToldBefore {
		tell(s, r)
	}
	return true
}

func tell(s *state, r swap) {
	for i := range s.p {
		if r.turn&bit(i) != 0 {
			s.p[i].tell(note{yourTurn, r.next.seq})
		}
		if r.gone&bit(i) != 0 {
			s.p[i].tell(note{youAreGone, r.next.seq})
		}
	}
}

func (p *process) tell(n note) {
	if !p.active() {
		return
	}
	if int(p.pending) == len(p.notes) { // too many: it is told that something was lost
		p.notes = [len(p.notes)]note{{what: somethingLost}}
		p.pending = 1
		return
	}
	p.notes[p.pending] = n
	p.pending++
}

// hear delivers a note, or loses it: then the listener is told that something may have been lost.
func (m *machine) hear(s state, i int, add adder) {
	p := s.p[i]
	if p.pending == 0 {
		return
	}
	n := p.notes[0]
	t := s
	q := &t.p[i]
	copy(q.notes[:], q.notes[1:])
	q.pending--
	q.notes[q.pending] = note{}
	u := t
	switch n.what {
	case yourTurn:
		if m.FirstTryCounts || n.seq > q.seen {
			q.turn = max(q.turn, n.seq)
		}
	case youAreGone:
		if n.seq > q.seen {
			q.gone = max(q.gone, n.seq)
		}
	case somethingLost:
		q.look = true
	}
	add(t, true, "%d hears %v", i, [...]string{"", "that it has its turn", "that it is gone", "that something was lost"}[n.what])
	if n.what != somethingLost && int(s.nLost) < m.Lost {
		u.nLost++
		u.p[i].look = true
		add(u, false, "a note to %d is lost", i)
	}
}

// act adds what i does by itself.
func (m *machine) act(s state, i int, add adder) {
	p := s.p[i]
	if p.request.sent {
		m.answer(s, i, add)
		return
	}
	switch {
	case p.phase == waiting && p.gone > 0, p.phase == holding && p.gone > 0:
		t := s
		t.p[i] = process{phase: done}
		add(t, true, "%d ends, since it was removed", i)
		return
	case p.phase == waiting && p.turn > 0:
		t := s
		t.p[i].phase, t.p[i].turn, t.p[i].look = holding, 0, false
		add(t, true, "%d enters", i)
		return
	case p.phase == holding:
		t := s
		t.p[i].phase, t.p[i].fresh = leaving, false
		add(t, false, "%d lets go", i)
		return
	case p.phase == waiting && !p.look && !m.finds(&s, i):
		return
	case !p.knows || !p.fresh && m.draft(&s, i) == nil || p.phase == waiting && p.look && !(p.fresh && p.doubted):
		t := s
		t.p[i].learn(s.line)
		if q := &t.p[i]; q.phase == waiting && !q.doubted { // in doubt it writes first
			q.look = false
			m.saw(&t, i)
		}
		add(t, true, "%d looks", i)
		return
	}
	next := m.draft(&s, i)
	if next == nil {
		t := s
		m.settled(&t, i)
		add(t, true, "%d is %v", i, t.p[i].phase)
		return
	}
	t := s
	t.versions++
	next.version = t.versions
	if m.CountedVersions {
		next.version = p.line.version + 1
	}
	t.p[i].request, t.p[i].sentAs = m.request(p.line, *next, i), p.phase
	if m.ToldBefore {
		tell(&t, t.p[i].request)
	}
	add(t, true, "%d sends a swap", i)
}

// finds reports whether i knows of somebody dead to take away.
func (m *machine) finds(s *state, i int) bool {
	for _, n := range s.line.nodes[:s.line.n] {
		if s.ended&bit(int(n.who)) != 0 {
			return true
		}
	}
	return false
}

// draft returns the line as i wants it to become, made from what it knows. It is nil if nothing is to change.
func (m *machine) draft(s *state, i int) *line {
	p := &s.p[i]
	next := p.line
	changed := p.doubted && p.doubt == p.line.version && !m.NoFence
	if next.version == 0 && p.knows {
		next = line{next: s.epoch*perEpoch + 1, seq: s.epoch * perEpoch}
	}
	switch p.phase {
	case joining:
		if _, there := next.stands(i); !there {
			next.nodes[next.n] = node{byte(i), next.next}
			next.n++
			next.next++
			changed = true
		}
	case leaving:
		changed = next.remove(i) || changed
	}
	for j := range m.Processes {
		if j != i && s.ended&bit(j) != 0 {
			changed = next.remove(j) || changed
		}
	}
	if !changed {
		return nil
	}
	next.seq++
	return &next
}

// request makes a swap, with those whom it concerns.
func (m *machine) request(before, next line, by int) swap {
	r := swap{sent: true, old: before.version, next: next}
	for j := range m.Processes {
		_, was := before.stands(j)
		_, is := next.stands(j)
		if j == by {
			continue
		}
		if was && !is && !m.RemovedUntold {
			r.gone |= bit(j)
		}
		if next.first(j) && !before.first(j) && !m.NextUntold {
			r.turn |= bit(j)
		}
	}
	return r
}

// answer adds what becomes of i's request.
func (m *machine) answer(s state, i int, add adder) {
	p := s.p[i]
	r := p.request
	t := s
	q := &t.p[i]
	q.request, q.sentAs = swap{}, 0
	applied := m.apply(&t, r)
	if applied {
		q.learn(r.next)
		q.fresh = p.phase == p.sentAs
		if p.phase == p.sentAs {
			m.settled(&t, i)
		}
		add(t, true, "the swap of %d is applied: it is %v", i, t.p[i].phase)
	} else {
		q.learn(s.line)
		q.fresh = p.phase == p.sentAs
		add(t, true, "the swap of %d meets a conflict", i)
	}
	if int(s.nLost) >= m.Lost {
		return
	}
	unknown := func(t *state) {
		t.nLost++
		q := &t.p[i]
		q.request, q.sentAs, q.knows, q.line, q.fresh = swap{}, 0, false, line{}, false
		q.doubted, q.doubt = true, r.old
		q.look = p.phase == waiting // it may have its turn by this
	}
	if t := s; applied && m.apply(&t, r) {
		unknown(&t)
		add(t, false, "the swap of %d is applied, and the answer lost", i)
	}
	for k := range s.late {
		if !s.late[k].sent {
			t := s
			unknown(&t)
			t.late[k] = r
			add(t, false, "the swap of %d is late", i)
			break
		}
	}
}

// settled is what follows once the line is as i wants it.
func (m *machine) settled(s *state, i int) {
	p := &s.p[i]
	switch p.phase {
	case joining:
		me, _ := p.line.stands(i)
		p.phase, p.seen, p.token = waiting, p.line.seq, me.token
		if p.turn <= p.seen && !m.FirstTryCounts {
			p.turn = 0
		}
		if p.gone <= p.seen {
			p.gone = 0
		}
		m.saw(s, i)
	case waiting:
		m.saw(s, i)
	case leaving:
		s.p[i] = process{phase: done}
	}
}

// saw is what a waiter makes of the line that it knows.
func (m *machine) saw(s *state, i int) {
	p := &s.p[i]
	p.seen = max(p.seen, p.line.seq)
	switch _, there := p.line.stands(i); {
	case !there:
		s.p[i] = process{phase: done}
	case p.line.first(i):
		p.phase, p.look = holding, false
	}
}

// trouble adds what may happen to i.
func (m *machine) trouble(s state, i int, add adder) {
	p := s.p[i]
	if m.GiveUp && (p.phase == joining || p.phase == waiting) {
		t := s
		t.p[i].phase, t.p[i].fresh = leaving, false
		add(t, false, "%d gives up", i)
	}
	if m.Expire {
		t := s
		t.p[i] = process{phase: lost}
		if p.request.sent {
			for k := range t.late {
				if !t.late[k].sent {
					t.late[k] = p.request
					break
				}
			}
		}
		add(t, false, "the deadline of %d passes", i)
	}
	if m.ExpireFirst && s.ended&bit(i) == 0 {
		t := s
		t.ended |= bit(i)
		add(t, false, "the session of %d is ended, and it does not know", i)
	}
}

// operate has an operator remove a node.
func (m *machine) operate(s state, add adder) {
	if int(s.nRemoved) >= m.Removed {
		return
	}
	for _, n := range s.line.nodes[:s.line.n] {
		t := s
		t.nRemoved++
		t.versions++
		next := s.line
		next.remove(int(n.who))
		next.version, next.seq = t.versions, next.seq+1
		t.removed[n.who] = n.token
		r := m.request(s.line, next, -1)
		if m.ToldBefore {
			tell(&t, r)
		}
		m.apply(&t, r)
		add(t, false, "an operator removes %d", n.who)
	}
}

// delete deletes the register of a line that has been empty for longer than any request may be late.
func (m *machine) delete(s state, add adder) {
	if int(s.nDeleted) >= m.Deleted || s.line.version == 0 || s.line.n > 0 {
		return
	}
	for _, p := range s.p {
		if p.request.sent && !m.DeletedAtOnce {
			return
		}
	}
	for _, r := range s.late {
		if r.sent && !m.DeletedAtOnce {
			return
		}
	}
	t := s
	t.nDeleted++
	if !m.EpochStays {
		t.epoch = max(t.epoch, s.line.next/perEpoch+1)
	}
	t.line = line{}
	add(t, false, "the empty line is deleted")
}

// judge looks for holders that exclude each other. One that an operator removed is excused until it hears of it.
func (m *machine) judge(s *state) string {
	if s.contradict != 0 {
		return "a token has come again"
	}
	holders := 0
	for i := range m.Processes {
		if p := s.p[i]; p.phase == holding && p.token != s.removed[i] {
			holders++
		}
	}
	if holders > 1 {
		return "two hold that must not"
	}
	return ""
}

// stuck looks at a state in which nothing more will happen by itself.
func (m *machine) stuck(s *state) string {
	for i := range m.Processes {
		_, there := s.line.stands(i)
		switch p := s.p[i]; {
		case p.phase == waiting && !there:
			return fmt.Sprintf("%d waits for ever: it does not stand in the line", i)
		case p.phase == waiting && s.line.first(i):
			return fmt.Sprintf("%d could go, and nothing will wake it", i)
		case p.phase == done && there && s.ended&bit(i) == 0:
			return fmt.Sprintf("%d has left, and stands in the line", i)
		}
	}
	return ""
}
