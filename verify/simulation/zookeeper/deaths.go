package zookeeper

import "slices"

// How members die: with their last words under way, and in the middle of a proposal.

// Crash ends a member together with its machine. Of what it has said to each of the others, and has yet to arrive, only the
// beginning does: kept says how many of so many messages. If it is silent, nobody is told that it has gone, and the others give
// it up when they have heard nothing for SyncLimit ticks.
func (m *Member) Crash(silent bool, kept func(of int) int) {
	m.e.mu.Lock()
	defer m.e.unlock()
	m.crash(silent, kept)
}

func (m *Member) crash(silent bool, kept func(of int) int) {
	if !m.up {
		return
	}
	for _, w := range m.e.ways {
		switch m {
		case w.from:
			w.queue = w.queue[:min(kept(len(w.queue)), len(w.queue))]
		case w.to:
			w.queue = nil
		}
	}
	m.silent = silent
	m.die()
}

func nothing(int) int { return 0 }

// Stage is how far a proposal has come when a member dies over it. What that member has said after this is lost.
type Stage int

const (
	Unspread  Stage = iota // only the leader has logged it, and dies
	Spread                 // so has one other member, and the leader dies
	Unheard                // so have all, and the leader dies before it hears that
	Untold                 // the leader has heard it, and its own clients have; it dies before it tells the others
	Told                   // so have the clients of one other member, and the leader dies
	Forgotten              // only the leader has logged it, and its machine dies, so that nobody is told
	Unmade                 // the leader knows that it is agreed to; the member that had passed it on dies before it hears that
	stages
)

// Stages is how many there are.
const Stages = int(stages)

type doom struct {
	stage Stage
	died  *Member
}

// Doom has a member die over the next proposal that a client asks for. Return calls it off, and starts the member again if it
// has died.
func (e *Ensemble) Doom(s Stage) (back func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	d := &doom{stage: s}
	e.doom = d
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.doom == d {
			e.doom = nil
		}
		if d.died != nil {
			d.died.up, d.died.silent = true, false
		}
	}
}

// followers returns the members that vote and follow.
func (l *reign) followers() (all []*Member) {
	for _, p := range l.peers {
		if !p.m.observer {
			all = append(all, p.m)
		}
	}
	return all
}

// dies is a proposal over which a member dies.
func (l *reign) dies(x *txn, d *doom, others []*Member) {
	e, slow := l.m.e, l.m.e.slow
	e.slow = true // nothing arrives by itself
	defer func() { e.slow = slow }()
	arrive := func(from, to *Member) {
		for w := e.way(from, to); len(w.queue) > 0 && !w.stalls(); {
			w.next()
		}
	}
	all := func(f func(m *Member)) {
		for _, m := range others {
			f(m)
		}
	}
	l.spread(x)
	d.died = l.m
	switch d.stage {
	case Spread:
		arrive(l.m, others[0])
	case Unheard:
		all(func(m *Member) { arrive(l.m, m) })
	case Untold, Told, Unmade:
		all(func(m *Member) { arrive(l.m, m) })
		all(func(m *Member) { arrive(m, l.m) })
		if d.stage == Told {
			arrive(l.m, others[0])
		}
		if d.stage == Unmade {
			if d.died = x.asked.conn.m; !slices.Contains(others, d.died) {
				d.died = others[0]
			}
		}
	}
	d.died.crash(d.stage == Forgotten, nothing)
}
