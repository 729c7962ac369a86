//go:build !race

package once

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/verify/model/walk"
)

// The model walks every order of steps of a few processes that want to run slots, as Run does: they try again until the slot is
// settled. What a look says is what turn.look says, as it ships. The lock is one line, first come, first served. The service takes a
// memo only from whoever still stands in the line.
//
// Faults, a few in each walk: a process dies, or its session ends and it learns of that first; a memo is written and nobody answers, or
// it arrives late, perhaps when its node has gone; the job fails.

const (
	mostProcesses = 3
	mostNodes     = 6
	mostSlots     = 3
)

type step byte

const (
	looks   step = iota // before it joins
	joins               // it wants the lock
	waits               // for its turn
	holds               // it has the lock, and looks again
	notes               // that the slot begins
	checks              // whether it still holds
	starts              // the job is called
	works               // inside the job
	ends                // notes that the job is done
	retries             // it has failed, and leaves
	leaves              // it is through
	through
	dead
)

type process struct {
	step  step
	token int8
	lost  bool   // it knows that its session is over
	inert uint16 // tokens
}

type node struct {
	token  int8
	doomed bool // its session is over, or nobody renews it
}

type memo struct {
	slot, token int8
	done        bool
}

type state struct {
	p       [mostProcesses]process
	line    [mostNodes]node
	memo    memo
	late    memo // a write that is under way, while its sender has given it up
	next    int8 // token
	faults  int8 // that may still happen
	died    bool
	started [mostSlots]int8
	ended   [mostSlots]bool // the job has returned without an error
}

// setting is who is there, and what is wrong with the recipe or the service.
type setting struct {
	policy Policy
	slots  []int8 // what each process wants to run

	blind     bool // nobody looks once more under the lock
	forgetful bool // nobody remembers which tokens are inert
	proud     bool // what was noted with an answer is never inert
	hasty     bool // a slot is noted when the job has run
	unfenced  bool // the service takes a memo from whoever has left the line
}

func (s *state) stands(token int8) bool {
	return token != 0 && slices.ContainsFunc(s.line[:], func(n node) bool { return n.token == token })
}

func (s *state) leave(token int8) {
	if at := slices.IndexFunc(s.line[:], func(n node) bool { return n.token == token }); token != 0 && at >= 0 {
		copy(s.line[at:], s.line[at+1:])
		s.line[mostNodes-1] = node{}
	}
}

func (s *state) doom(token int8) {
	for at := range s.line {
		if token != 0 && s.line[at].token == token {
			s.line[at].doomed = true
		}
	}
}

func (m *setting) settled(s *state, i int) bool {
	t := turn{Job: &Job{policy: m.policy}, slot: int64(m.slots[i])}
	for token := range int8(16) {
		if !m.forgetful && s.p[i].inert>>token&1 == 1 {
			t.inert = append(t.inert, coord.Token(token))
		}
	}
	settled, _ := t.look(Record{Slot: int64(s.memo.slot), Done: s.memo.done, Token: coord.Token(s.memo.token)}, nil)
	return settled
}

// write is what becomes of a memo that arrives.
func (m *setting) write(s *state, w memo) (taken bool) {
	if taken = m.unfenced || s.stands(w.token); taken {
		s.memo = w
	}
	return taken
}

func (m *setting) moves(s state) (all []walk.Move[state]) {
	move := func(sure bool, what string, change func(t *state)) {
		t := s
		change(&t)
		all = append(all, walk.Move[state]{State: t, What: what, Sure: sure, Bad: m.judge(&t)})
	}
	for i := range m.slots {
		m.steps(&s, i, move)
	}
	for _, n := range s.line {
		if n.doomed {
			move(true, fmt.Sprintf("the service ends the session of %d", n.token), func(t *state) { t.leave(n.token) })
		}
	}
	if s.late != (memo{}) {
		move(true, fmt.Sprintf("%+v arrives late", s.late), func(t *state) {
			t.late = memo{}
			m.write(t, s.late)
		})
	}
	return all
}

// steps adds what process i may do.
func (m *setting) steps(s *state, i int, move func(sure bool, what string, change func(t *state))) {
	p := s.p[i]
	add := func(sure bool, what string, change func(t *state, p *process)) {
		move(sure, fmt.Sprintf("%c %s", 'a'+i, what), func(t *state) { change(t, &t.p[i]) })
	}
	fault := func(what string, change func(t *state, p *process)) {
		if s.faults > 0 {
			add(false, what, func(t *state, p *process) {
				t.faults--
				change(t, p)
			})
		}
	}
	// notesDown sends a memo. Of what becomes of it, one is sure, and the others are faults.
	notesDown := func(done bool, answered, failed func(p *process)) {
		w := memo{slot: m.slots[i], token: p.token, done: done}
		add(true, fmt.Sprintf("notes %+v", w), func(t *state, p *process) {
			if m.write(t, w) {
				answered(p)
			} else {
				failed(p)
			}
		})
		fault(fmt.Sprintf("notes %+v and hears nothing", w), func(t *state, p *process) {
			m.write(t, w)
			failed(p)
		})
		if s.late == (memo{}) {
			fault(fmt.Sprintf("sends %+v and hears nothing", w), func(t *state, p *process) {
				t.late = w
				failed(p)
			})
		}
	}
	to := func(next step) func(p *process) { return func(p *process) { p.step = next } }
	inVain := func(p *process) { p.step, p.inert = retries, p.inert|1<<p.token }
	switch p.step {
	case looks:
		settled := m.settled(s, i)
		add(true, "looks", func(t *state, p *process) {
			if p.step = joins; settled {
				p.step = through
			}
		})
		if settled {
			add(false, "looks at what was", func(t *state, p *process) { p.step = joins })
		}
	case joins:
		add(true, "joins", func(t *state, p *process) {
			t.next++
			p.step, p.token, p.lost = waits, t.next, false
			t.line[slices.Index(t.line[:], node{})].token = t.next
		})
	case waits:
		if s.line[0].token == p.token && !p.lost {
			add(true, "holds", func(t *state, p *process) { p.step = holds })
		}
	case holds:
		settled := !m.blind && m.settled(s, i)
		add(true, "looks once more", func(t *state, p *process) {
			switch {
			case settled:
				p.step = leaves
			case m.policy == AtMostOnce && !m.hasty:
				p.step = notes
			default:
				p.step = checks
			}
		})
	case notes:
		notesDown(false, to(checks), inVain)
	case checks:
		add(true, "checks", func(t *state, p *process) {
			switch {
			case p.lost && m.proud:
				p.step = retries
			case p.lost:
				inVain(p)
			default:
				p.step = starts
			}
		})
	case starts:
		add(true, "starts the job", func(t *state, p *process) {
			p.step = works
			t.started[m.slots[i]]++
		})
	case works:
		add(true, "has done the job", func(t *state, p *process) {
			p.step = ends
			t.ended[m.slots[i]] = true
		})
		fault("fails", func(t *state, p *process) { m.failed(p) })
	case ends:
		notesDown(true, to(leaves), m.failed)
	case retries, leaves:
		add(true, "leaves", func(t *state, p *process) {
			if !p.lost { // else the service ends it some time
				t.leave(p.token)
			}
			if p.step == retries {
				p.step = looks
			} else {
				p.step = through
			}
		})
	}
	if p.step != through && p.step != dead {
		fault("dies", func(t *state, p *process) {
			p.step, t.died = dead, true
			t.doom(p.token)
		})
	}
	if p.lost && p.step == waits {
		add(true, "hears that its session is over", func(t *state, p *process) { p.step = retries })
	}
	if !p.lost && p.step > joins && p.step < retries {
		fault("is too late", func(t *state, p *process) {
			p.lost = true
			t.doom(p.token)
		})
	}
}

// failed says what Run does when the job, or what is noted after it, has failed.
func (m *setting) failed(p *process) {
	if p.step = retries; m.policy == AtMostOnce {
		p.step = leaves
	}
}

func (m *setting) judge(s *state) string {
	for slot, n := range s.started {
		if m.policy == AtMostOnce && n > 1 {
			return fmt.Sprintf("slot %d is run twice", slot)
		}
	}
	return ""
}

// stuck judges what has come of it in the end.
func (m *setting) stuck(s *state) string {
	last := slices.Max(m.slots)
	for i, p := range s.p[:len(m.slots)] {
		if p.step != through && p.step != dead {
			return fmt.Sprintf("%c waits for ever", 'a'+i)
		}
		if slot := m.slots[i]; p.step == through && slot == last {
			switch {
			case m.policy == AtLeastOnce && !s.ended[slot]:
				return fmt.Sprintf("slot %d is taken for done, and is not", slot)
			case m.policy == AtMostOnce && !s.died && s.started[slot] == 0:
				return fmt.Sprintf("nobody has died, and nobody has run slot %d", slot)
			}
		}
	}
	return ""
}

func (m *setting) search(t *testing.T, faults int8) string {
	return walk.ToTheEnd(t, state{faults: faults}, m.moves, m.stuck, 3_000_000)
}

func TestInEveryOrderASlotIsRunAsOftenAsItsPolicySays(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	for _, policy := range []Policy{AtMostOnce, AtLeastOnce} {
		for _, f := range []struct {
			slots  []int8
			faults int8
		}{{[]int8{1, 1}, 3}, {[]int8{1, 2}, 3}, {[]int8{1, 1, 2}, 1}} {
			t.Run(fmt.Sprint(policy, f.slots), func(t *testing.T) {
				if bad := (&setting{policy: policy, slots: f.slots}).search(t, f.faults); bad != "" {
					t.Error(bad)
				}
			})
		}
	}
}

// What would not do: each is found.
func TestOtherWaysRunASlotTwiceOrNever(t *testing.T) {
	for name, f := range map[string]struct {
		setting
		says string
	}{
		"nobody looks once more under the lock":      {setting{policy: AtMostOnce, slots: []int8{1, 1}, blind: true}, "twice"},
		"a slot is noted when the job has run":       {setting{policy: AtMostOnce, slots: []int8{1, 1}, hasty: true}, "twice"},
		"nobody remembers what was noted in vain":    {setting{policy: AtMostOnce, slots: []int8{1, 1}, forgetful: true}, "nobody has run"},
		"who is lost as it notes takes that for run": {setting{policy: AtMostOnce, slots: []int8{1, 1}, proud: true}, "nobody has run"},
		"the service takes a memo from who has left": {setting{policy: AtMostOnce, slots: []int8{1, 2, 2}, unfenced: true}, "nobody has run"},
	} {
		t.Run(name, func(t *testing.T) {
			if bad := f.search(t, 2); !strings.Contains(bad, f.says) {
				t.Errorf("found %q", bad)
			}
		})
	}
}
