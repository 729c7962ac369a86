package zookeeper

import (
	"slices"
	"strings"
	"time"
)

// What befalls an ensemble, and what its operators do and see. None of it goes through the Network.

// Cut stops what a member says to the others, or what they say to it, or both. Its clients reach it as before, and it goes
// on answering them by itself for SyncLimit ticks.
func (m *Member) Cut(out, in bool) {
	m.e.mu.Lock()
	defer m.e.unlock()
	m.out, m.in = out, in
}

// Heal ends a Cut. What was on its way arrives.
func (m *Member) Heal() { m.Cut(false, false) }

// Hold stops what one member says to another, until release is called. Then what was on its way arrives.
func (e *Ensemble) Hold(from, to *Member) (release func()) {
	set := func(held bool) {
		e.mu.Lock()
		defer e.unlock()
		e.way(from, to).held = held
	}
	set(true)
	return func() { set(false) }
}

// Way is one direction between two members, by their numbers, on which something may arrive.
type Way struct {
	From, To int
	What     string
}

// Waiting returns where something may arrive between the members of a slow ensemble.
func (e *Ensemble) Waiting() (all []Way) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.ways {
		if len(w.queue) > 0 && !w.stalls() {
			all = append(all, Way{w.from.number, w.to.number, w.queue[0].what})
		}
	}
	return all
}

// Deliver has up to n messages arrive.
func (e *Ensemble) Deliver(w Way, n int) {
	e.mu.Lock()
	defer e.unlock()
	for at := e.way(e.members[w.From-1], e.members[w.To-1]); n > 0 && len(at.queue) > 0; n-- {
		at.next()
	}
}

// Settle has everything arrive that is on its way between the members, unless it is held.
func (e *Ensemble) Settle() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deliver()
}

// Hasten makes a slow ensemble one in which everything arrives at once.
func (e *Ensemble) Hasten() {
	e.mu.Lock()
	defer e.unlock()
	e.slow = false
}

// Kill ends a member at once. What it has logged, it has when it is started again. If it leads, the others drop their clients
// and elect another.
func (m *Member) Kill() {
	m.e.mu.Lock()
	defer m.e.unlock()
	m.die()
}

func (m *Member) die() {
	if m.up {
		m.leave()
		m.up = false
		m.forget()
	}
}

// Start starts a member that was killed.
func (m *Member) Start() {
	m.e.mu.Lock()
	defer m.e.mu.Unlock()
	m.up, m.silent = true, false
}

// IsUp reports whether a member runs.
func (m *Member) IsUp() bool {
	m.e.mu.Lock()
	defer m.e.mu.Unlock()
	return m.up
}

// Serves reports whether a member answers clients.
func (m *Member) Serves() bool {
	m.e.mu.Lock()
	defer m.e.mu.Unlock()
	return m.up && m.serves()
}

// Grant has a member grant no timeouts longer than that, as if its configuration said so.
func (m *Member) Grant(most time.Duration) {
	m.e.mu.Lock()
	defer m.e.mu.Unlock()
	m.Most = most
}

// Follow has a member make up to n of the changes that it does not know yet, and returns how many are left.
func (m *Member) Follow(n int) (left int) {
	m.e.mu.Lock()
	defer m.e.unlock()
	m.follow(n)
	return m.behind()
}

// MissesNews reports whether a member has yet to learn that something was made, written or removed.
func (m *Member) MissesNews() bool {
	m.e.mu.Lock()
	defer m.e.mu.Unlock()
	for _, x := range m.log[m.applied : m.applied+m.behind()] {
		if x.changes() {
			return true
		}
	}
	return false
}

// MemberOf returns the member that a client has its latest connection with, or nil if it has none.
func (e *Ensemble) MemberOf(link string) *Member {
	e.mu.Lock()
	defer e.mu.Unlock()
	latest := 0
	var found *Member
	for _, m := range e.members {
		for _, c := range m.conns {
			if c.link == link && c.number > latest {
				latest, found = c.number, m
			}
		}
	}
	return found
}

// Break ends all connections of a client, for both sides.
func (e *Ensemble) Break(link string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.members {
		for _, c := range slices.Clone(m.conns) {
			if c.link == link {
				c.end()
				c.pipe.finish()
			}
		}
	}
}

// Refuse has a client's next request for watches refused, as busy servers do.
func (e *Ensemble) Refuse(link string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refusing[link] = true
}

// Restore has an operator stop all members, put back what they had some transactions ago, and start them again. Sessions
// that existed then exist again. Then as many other transactions are made as since says.
func (e *Ensemble) Restore(back, since int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.members {
		m.leave()
	}
	for _, w := range e.ways {
		w.queue = nil
	}
	kept := e.log[:max(len(e.cfg.aged()), len(e.log)-back)]
	e.log, e.latest, e.epoch = nil, e.newTree(), 0
	for i, x := range kept {
		e.agree(i, x)
		e.epoch = x.zxid >> 32
	}
	for range since {
		x := &txn{op: opError, code: errNoNode, zxid: e.latest.zxid + 1, at: e.began.UnixMilli() + e.now().Milliseconds()}
		e.agree(len(e.log), x)
	}
	for _, m := range e.members {
		m.log, m.committed, m.applied, m.tree, m.epoch, m.back = slices.Clone(e.log), 0, 0, e.newTree(), 0, 0
		m.forget()
	}
	e.electAt = e.now() + e.cfg.Election
}

// Length returns how many transactions there have been.
func (e *Ensemble) Length() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.log)
}

// operator has the leader propose something, and reports whether there is a majority to agree.
func (e *Ensemble) operator(proposes func(l *reign)) bool {
	if e.leader == nil || !e.leader.reign.hears() {
		return false
	}
	proposes(e.leader.reign)
	e.deliver()
	return true
}

// Remove has an operator delete a node. It reports whether there was one, and a majority to agree.
func (e *Ensemble) Remove(p string) (removed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.operator(func(l *reign) {
		if n := l.ahead.nodes[p]; n != nil && len(n.names) == 0 {
			removed = true
			l.propose(&txn{op: opDelete, path: p})
		}
	})
	return removed
}

// RemoveAll has an operator delete a node with all that is below it, one after the other. It reports whether it has gone.
func (e *Ensemble) RemoveAll(p string) bool {
	all := append(e.Below(p), p)
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(b, a) })
	for _, at := range all {
		e.Remove(at)
	}
	_, there := e.Look(p)
	return !there
}

// Write has an operator write to a node.
func (e *Ensemble) Write(p string, data []byte) (written bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.operator(func(l *reign) {
		if n := l.ahead.nodes[p]; n != nil {
			written = true
			l.propose(&txn{op: opSetData, path: p, data: data, version: n.version + 1})
		}
	})
	return written
}

// Allow has an operator set what anybody may do with a node, such as "r" or "crwda". It returns false if there is no majority
// to agree; where there is no such node, there is nothing to do.
func (e *Ensemble) Allow(p, rights string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	var perms int32
	for _, r := range rights {
		perms |= 1 << strings.IndexRune("rwcda", r)
	}
	return e.operator(func(l *reign) {
		if n := l.ahead.nodes[p]; n != nil {
			l.propose(&txn{op: opSetACL, path: p, acl: []ACL{{perms, "world", "anyone"}}, version: n.aversion + 1})
		}
	})
}

// Expire has an operator end the sessions of a client.
func (e *Ensemble) Expire(link string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.operator(func(l *reign) {
		var ids []int64
		for id, t := range l.tracked {
			if t.link == link && !t.closing {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		for _, id := range ids {
			l.endSession(l.tracked[id])
		}
	})
}

// Child is a node as the latest transaction has left it.
type Child struct {
	Path  string
	Owner *Session // nil: it is not of a session
	Born  int64    // the transaction that made it
}

// Directory is a node with what is in it.
type Directory struct {
	Path     string
	Born     int64
	Children []Child
}

// Look shows a node and what is in it, whatever the members know of it; ok is false if there is none.
func (e *Ensemble) Look(p string) (d Directory, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.latest.nodes[p]
	if n == nil {
		return d, false
	}
	d = Directory{Path: p, Born: n.czxid}
	for _, name := range e.latest.names(p) {
		child := e.latest.nodes[join(p, name)]
		d.Children = append(d.Children, Child{join(p, name), e.sessions[child.owner], child.czxid})
	}
	return d, true
}

// Below returns all nodes below a path.
func (e *Ensemble) Below(p string) (all []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for at := range e.latest.nodes {
		if isBelow(at, p) {
			all = append(all, at)
		}
	}
	slices.Sort(all)
	return all
}

// OwnerOf returns the session whose node was last at a path, or nil if it was of none.
func (e *Ensemble) OwnerOf(p string) *Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.owners[p]
}

// Expires returns when a session ends if the members hear nothing more from its client, nor from each other; zero: it
// has ended. If a member has cut its timeout, that counts from when its client has been told; before that, nobody there can
// know.
func (e *Ensemble) Expires(s *Session) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, lives := e.latest.sessions[s.id]; !lives {
		return time.Time{}
	}
	if e.leader == nil {
		return time.Now().Add(time.Duration(float64(e.latest.sessions[s.id]) * float64(time.Millisecond) / e.cfg.Rate))
	}
	t := e.leader.reign.tracked[s.id]
	if t == nil || t.closing {
		return time.Now()
	}
	at := e.began.Add(time.Duration(float64(max(t.expires, time.Duration(t.untold.Load()))) / e.cfg.Rate))
	if now := time.Now(); at.Before(now) {
		return now
	}
	return at
}

// Connected reports whether a session's client has a connection with any member.
func (e *Ensemble) Connected(s *Session) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.members {
		for _, c := range m.conns {
			if c.session == s {
				return true
			}
		}
	}
	return false
}

// Dead returns the nodes of sessions that have ended; there should be none.
func (e *Ensemble) Dead() (all []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for p, n := range e.latest.nodes {
		if _, lives := e.latest.sessions[n.owner]; n.owner > 0 && !lives {
			all = append(all, strings.TrimPrefix(p, e.cfg.Root))
		}
	}
	slices.Sort(all)
	return all
}
