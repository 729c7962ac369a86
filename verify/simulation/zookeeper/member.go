package zookeeper

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Member is one server.
type Member struct {
	Least, Most time.Duration // of the timeouts it grants

	e         *Ensemble
	number    int
	observer  bool
	up        bool   // its process runs
	silent    bool   // nobody hears any more of it, not even that it has gone
	out, in   bool   // what it says to the others does not arrive; what they say to it does not
	reign     *reign // nil: it does not lead, as far as it knows
	peer      *peer  // its connection with the leader that it follows; nil: with none
	epoch     int64  // of the latest leader that it has followed, or was
	heard     time.Duration
	back      time.Duration // it does not enter again before that
	log       []*txn        // what it has logged
	committed int           // how much of it has been agreed to, as far as it knows
	applied   int           // how much of that is in the tree
	tree      *tree
	touched   map[int64]int32 // sessions that it has heard from, and their timeouts, since the leader asked
	conns     []*conn
	watching
}

// Address returns where clients reach the member.
func (m *Member) Address() string { return fmt.Sprintf("10.0.0.%d:2181", m.number) }

func (m *Member) String() string { return fmt.Sprintf("m%d", m.number) }

// forget drops all watches, as a restart does.
func (m *Member) forget() {
	m.watching = newWatching()
	m.tree.changed = m.fire
}

// serves reports whether a member is one of those that agree to changes, as far as it knows.
func (m *Member) serves() bool { return m.reign != nil || m.peer != nil }

// leave makes a member that has lost the others drop its clients.
func (m *Member) leave() {
	if l := m.reign; l != nil {
		m.reign = nil
		if m.e.leader == m {
			m.e.leader = nil
		}
		for _, p := range l.peers {
			p.tell("hung up", p.m.leave)
		}
	}
	if p := m.peer; p != nil {
		m.peer = nil
		p.say("hung up", func() { p.l.drop(p) })
	}
	clear(m.touched)
	for _, c := range slices.Clone(m.conns) {
		c.hangUp()
	}
	m.back = m.e.now() + m.e.cfg.Election/2
}

// compare says which of two members has logged more.
func (m *Member) compare(other *Member) int {
	return cmp.Or(cmp.Compare(m.epoch, other.epoch), cmp.Compare(len(m.log), len(other.log)), cmp.Compare(m.number, other.number))
}

// behind returns how many changes a member has yet to make, of those that it knows to be agreed to.
func (m *Member) behind() int {
	if !m.up || !m.serves() {
		return 0
	}
	return m.committed - m.applied
}

// follow has a member make the next changes, at most n.
func (m *Member) follow(n int) {
	for ; n > 0 && m.behind() > 0; n-- {
		x := m.log[m.applied]
		m.applied++
		m.tree.apply(x)
		for _, c := range slices.Clone(m.conns) {
			c.advance()
			if x.op == opCloseSession && c.session != nil && c.session.id == x.session {
				c.hangUp()
			}
		}
	}
}

// accept takes a connection. It reports whether anybody listens.
func (m *Member) accept(c *conn) bool {
	if !m.up {
		return false
	}
	n := 0
	for _, other := range m.conns {
		if other.link == c.link {
			n++
		}
	}
	c.open = true
	m.conns = append(m.conns, c)
	if !m.serves() || m.e.cfg.MostConns > 0 && n >= m.e.cfg.MostConns {
		c.hangUp()
	}
	return true
}

// watching holds who wants to be told of what.
type watching struct {
	data, child map[string][]*conn
	persistent  map[string][]standing
}

// standing is a persistent watch.
type standing struct {
	conn      *conn
	recursive bool
}

func newWatching() watching {
	return watching{make(map[string][]*conn), make(map[string][]*conn), make(map[string][]standing)}
}

func add(to map[string][]*conn, p string, c *conn) {
	if !slices.Contains(to[p], c) {
		to[p] = append(to[p], c)
	}
}

// unwatch forgets all that a connection wanted.
func (m *Member) unwatch(c *conn) {
	for _, all := range []map[string][]*conn{m.data, m.child} {
		for p, who := range all {
			if who = slices.DeleteFunc(who, func(other *conn) bool { return other == c }); len(who) == 0 {
				delete(all, p)
			} else {
				all[p] = who
			}
		}
	}
	for p, who := range m.persistent {
		if who = slices.DeleteFunc(who, func(s standing) bool { return s.conn == c }); len(who) == 0 {
			delete(m.persistent, p)
		} else {
			m.persistent[p] = who
		}
	}
}

// fire tells those who watch. Each hears of the end of a node once, however many watches it has there.
func (m *Member) fire(n news) {
	what, p := n.what, n.path
	var who []*conn
	use := func(all map[string][]*conn) {
		for _, c := range all[p] {
			if !slices.Contains(who, c) {
				who = append(who, c)
			}
		}
		delete(all, p)
	}
	if what != childrenChanged {
		use(m.data)
	}
	if what == childrenChanged || what == nodeDeleted {
		use(m.child)
	}
	for at, all := range m.persistent {
		for _, s := range all {
			if (at == p && (!s.recursive || what != childrenChanged) || s.recursive && what != childrenChanged && isBelow(p, at)) &&
				!slices.Contains(who, s.conn) {
				who = append(who, s.conn)
			}
		}
	}
	for _, c := range who {
		c.tell(n)
	}
}

func isBelow(p, dir string) bool {
	return dir == "/" || len(p) > len(dir) && p[:len(dir)] == dir && p[len(dir)] == '/'
}
