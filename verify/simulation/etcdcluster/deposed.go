package etcdcluster

import (
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// reign is what a member remembers of the time when it led. Until it notices that it leads no longer, it renews leases in its
// own memory: etcd before 3.4.31 and 3.5.13 does not ask the others first, and 3.4.34, 3.5.16, 3.6.0 and later do not as long
// as their clock ticks.
type reign struct {
	leases map[int64]*remembered
	until  time.Time // zero: it is asleep
}

type remembered struct {
	ttl    int64
	expiry time.Time
}

// depose is for a leader that does not hear that another one is elected.
func (c *Cluster) depose(m *member) {
	if !m.away && !m.asleep {
		return
	}
	m.reign = &reign{leases: make(map[int64]*remembered)}
	for id, l := range c.state.leases {
		m.reign.leases[id] = &remembered{l.ttl, l.expiry}
	}
	if !m.asleep { // its second check that it has a majority finds that out
		m.reign.until = c.silent.Add(2 * c.cfg.Election)
	}
}

// hears is for a member that hears from the leader.
func (c *Cluster) hears(m *member) { m.reign, m.term = nil, c.term }

// meets is for a member that reaches the others again. One that believes to lead hears from its successor a moment later.
func (c *Cluster) meets(m *member) {
	if m.reign == nil {
		m.term = c.term
		return
	}
	m.reign.until = time.Now().Add(c.cfg.Election / 10)
	time.AfterFunc(c.cfg.Election/10, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.reaches(m) && !m.asleep {
			c.hears(m)
		}
	})
}

// Wake has a member go on that slept. It has lost the others, but its clients still reach it.
func (c *Cluster) Wake(id int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[id]
	m.asleep, m.away = false, true
	if m.reign != nil {
		m.reign.until = time.Now().Add(2 * c.cfg.Election)
	}
	all := m.stuck
	m.stuck = nil
	for _, s := range all {
		s.try()
	}
}

// believes reports whether a member that leads no longer has yet to notice.
func (m *member) believes() bool { return m.reign != nil && time.Now().Before(m.reign.until) }

// renewAlone renews a lease in a member's own memory. It returns false if the answer has to wait.
func (m *member) renewAlone(said *pb.LeaseKeepAliveResponse) bool {
	l := m.reign.leases[said.ID]
	if l == nil {
		return true
	}
	if !time.Now().Before(l.expiry) {
		return false
	}
	l.expiry = time.Now().Add(time.Duration(l.ttl) * time.Second)
	said.TTL = l.ttl
	return true
}
