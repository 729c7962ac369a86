//go:build !race

package shards

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/verify/model/walk"
)

// The model walks every order of steps of a few processes that divide shards. Each hears of the group late, and may miss views, never
// the last one. Whose a shard is says owner, as it ships. Each shard has a line of its own, first come, first served.
//
// Members come, leave, die, and lose their membership or a shard; who loses something knows that before the service lets anybody else in.
// In the end, when nothing is under way any more, each shard must be worked on by the member whose it is.

const (
	mostMembers = 3
	mostShards  = 2
	mostTasks   = 2 // of a member, for a shard: one ends while the next one begins
)

type phase byte

const (
	away   phase = iota
	member       // it stands in the group
	left         // it has left the group, and its work ends
	gone         // for good
)

type doing byte

const (
	nothing doing = iota
	asks          // for the shard's lock
	waits         // in line
	works
	stops // its context has ended
)

// task is what a member does for a shard.
type task struct {
	doing doing
	ended bool // the shard is not the member's any more
	token int8 // of the lock
}

type process struct {
	phase phase
	again bool // it comes again when its work has ended
	token int8 // in the group
	view  uint32
	tasks [mostShards][mostTasks]task
}

type entry struct {
	token  int8
	doomed bool // its session is over, and its owner knows, or is dead
}

type world struct {
	p      [mostMembers]process
	group  uint32 // tokens that stand in it
	doomed uint32 // of these
	lines  [mostShards][mostMembers * mostTasks]entry
	next   int8
	faults int8
}

// setting is who is there, and what is wrong with the recipe.
type setting struct {
	members, shards int

	keeps   bool // who hears that a shard has moved goes on
	resigns bool // who has lost a shard's lock does not ask for it again
	hasty   bool // who has lost a shard's lock goes on
}

func (w *world) leave(shard int, token int8) {
	line := &w.lines[shard]
	if at := slices.IndexFunc(line[:], func(e entry) bool { return e.token == token }); token != 0 && at >= 0 {
		copy(line[at:], line[at+1:])
		line[len(line)-1] = entry{}
	}
}

func (w *world) doom(shard int, token int8) {
	for at := range w.lines[shard] {
		if e := &w.lines[shard][at]; token != 0 && e.token == token {
			e.doomed = true
		}
	}
}

func tokens(group uint32) (all []coord.Token) {
	for token := range coord.Token(32) {
		if group>>token&1 == 1 {
			all = append(all, token)
		}
	}
	return all
}

// divide does what a view says.
func (m *setting) divide(w *world, i int) {
	p := &w.p[i]
	for shard := range m.shards {
		mine := owner(tokens(p.view), shard) == coord.Token(p.token)
		owned := slices.IndexFunc(p.tasks[shard][:], func(t task) bool { return t.doing != nothing && !t.ended })
		switch {
		case mine && owned < 0:
			at := slices.Index(p.tasks[shard][:], task{})
			p.tasks[shard][at].doing = asks
		case owned >= 0 && !mine && !m.keeps:
			p.tasks[shard][owned].end()
		}
	}
}

func (t *task) end() {
	switch t.ended = true; t.doing {
	case asks:
		*t = task{}
	case waits, works:
		t.doing = stops
	}
}

func (p *process) end() {
	for shard := range p.tasks {
		for k := range p.tasks[shard] {
			p.tasks[shard][k].end()
		}
	}
}

func (p *process) idle() bool { return p.tasks == [mostShards][mostTasks]task{} }

func (m *setting) moves(w world) (all []walk.Move[world]) {
	move := func(sure bool, what string, change func(t *world)) {
		t := w
		change(&t)
		all = append(all, walk.Move[world]{State: t, What: what, Sure: sure, Bad: m.judge(&t)})
	}
	for i := range m.members {
		m.steps(&w, i, move)
	}
	for _, token := range tokens(w.doomed) {
		move(true, fmt.Sprintf("the service ends the membership %d", token), func(t *world) {
			t.group &^= 1 << token
			t.doomed &^= 1 << token
		})
	}
	for shard := range m.shards {
		for _, e := range w.lines[shard] {
			if e.doomed {
				move(true, fmt.Sprintf("the service ends %d in the line of shard %d", e.token, shard), func(t *world) { t.leave(shard, e.token) })
			}
		}
	}
	return all
}

func (m *setting) steps(w *world, i int, move func(sure bool, what string, change func(t *world))) {
	add := func(sure bool, what string, change func(t *world, p *process)) {
		move(sure, fmt.Sprintf("%c %s", 'a'+i, what), func(t *world) { change(t, &t.p[i]) })
	}
	fault := func(what string, change func(t *world, p *process)) {
		if w.faults > 0 {
			add(false, what, func(t *world, p *process) {
				t.faults--
				change(t, p)
			})
		}
	}
	switch p := w.p[i]; p.phase {
	case away:
		add(true, "joins", func(t *world, p *process) {
			t.next++
			p.phase, p.token, p.view = member, t.next, 0
			t.group |= 1 << t.next
		})
	case member:
		if p.view != w.group {
			add(true, "looks at the group", func(t *world, p *process) {
				if p.view = t.group; p.view>>p.token&1 == 1 {
					m.divide(t, i)
				}
			})
		}
		fault("leaves", func(t *world, p *process) {
			t.group &^= 1 << p.token
			p.phase = left
			p.end()
		})
		fault("loses its membership", func(t *world, p *process) {
			t.doomed |= 1 << p.token
			p.phase, p.again = left, true
			p.end()
		})
	case left:
		if p.idle() {
			add(true, "has ended its work", func(t *world, p *process) {
				if *p = (process{phase: gone}); w.p[i].again {
					p.phase = away
				}
			})
		}
	}
	if p := w.p[i]; p.phase == member || p.phase == left {
		fault("dies", func(t *world, p *process) {
			if t.group>>p.token&1 == 1 {
				t.doomed |= 1 << p.token
			}
			for shard, tasks := range p.tasks {
				for _, k := range tasks {
					t.doom(shard, k.token)
				}
			}
			*p = process{phase: gone}
		})
	}
	for shard := range m.shards {
		for k := range mostTasks {
			m.task(w, i, shard, k, add, fault)
		}
	}
}

// task adds what a member may do for a shard.
func (m *setting) task(w *world, i, shard, k int, add func(bool, string, func(*world, *process)), fault func(string, func(*world, *process))) {
	switch now := w.p[i].tasks[shard][k]; now.doing {
	case asks:
		add(true, fmt.Sprintf("joins the line of shard %d", shard), func(t *world, p *process) {
			t.next++
			p.tasks[shard][k] = task{doing: waits, token: t.next}
			t.lines[shard][slices.Index(t.lines[shard][:], entry{})].token = t.next
		})
	case waits:
		if w.lines[shard][0] == (entry{token: now.token}) {
			add(true, fmt.Sprintf("works on shard %d", shard), func(t *world, p *process) { p.tasks[shard][k].doing = works })
		}
	case works:
		fault(fmt.Sprintf("loses the lock of shard %d", shard), func(t *world, p *process) {
			t.doom(shard, now.token)
			switch {
			case m.hasty:
			case m.resigns:
				p.tasks[shard][k] = task{doing: waits, token: -1}
			default:
				p.tasks[shard][k] = task{doing: asks}
			}
		})
	case stops:
		add(true, fmt.Sprintf("stops, and unlocks shard %d", shard), func(t *world, p *process) {
			t.leave(shard, now.token)
			p.tasks[shard][k] = task{}
		})
	}
}

func (m *setting) workers(w *world, shard int) (all []int) {
	for i := range m.members {
		for _, k := range w.p[i].tasks[shard] {
			if k.doing == works || k.doing == stops && w.lines[shard][0].token == k.token {
				all = append(all, i)
			}
		}
	}
	return all
}

func (m *setting) judge(w *world) string {
	for shard := range m.shards {
		if len(m.workers(w, shard)) > 1 {
			return fmt.Sprintf("two work on shard %d", shard)
		}
	}
	return ""
}

// stuck judges what has come of it in the end.
func (m *setting) stuck(w *world) string {
	for shard := range m.shards {
		if w.group == 0 {
			break
		}
		of := owner(tokens(w.group), shard)
		if all := m.workers(w, shard); len(all) != 1 || coord.Token(w.p[all[0]].token) != of {
			return fmt.Sprintf("nobody works on shard %d, or not the one whose it is", shard)
		}
	}
	return ""
}

func (m *setting) search(t *testing.T, faults int8) string {
	return walk.ToTheEnd(t, world{faults: faults}, m.moves, m.stuck, 3_000_000)
}

func TestInEveryOrderEachShardIsWorkedOnByItsMember(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	for _, f := range []struct {
		members, shards int
		faults          int8
	}{{2, 1, 3}, {2, 2, 2}, {3, 1, 1}} {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			if bad := (&setting{members: f.members, shards: f.shards}).search(t, f.faults); bad != "" {
				t.Error(bad)
			}
		})
	}
}

// What would not do: each is found.
func TestOtherWaysLeaveAShardToNobodyOrToTwo(t *testing.T) {
	for name, f := range map[string]struct {
		setting
		says string
	}{
		"who hears that a shard has moved goes on":     {setting{members: 2, shards: 1, keeps: true}, "nobody works"},
		"who has lost a shard does not ask for it":     {setting{members: 1, shards: 1, resigns: true}, "nobody works"},
		"who has lost the lock of a shard works still": {setting{members: 2, shards: 1, hasty: true}, "two work"},
	} {
		t.Run(name, func(t *testing.T) {
			if bad := f.search(t, 2); !strings.Contains(bad, f.says) {
				t.Errorf("found %q", bad)
			}
		})
	}
}
