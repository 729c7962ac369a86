package etcdcluster

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Leader returns the member that was elected last.
func (c *Cluster) Leader() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leader
}

// Members returns how many members there are.
func (c *Cluster) Members() int { return len(c.members) }

// Isolate cuts a member off from the others: it serves what it can by itself, and its clients still reach it.
func (c *Cluster) Isolate(id int) { c.leave(id, func(m *member) { m.away = true }) }

// Sleep stops a member: what is sent to it waits.
func (c *Cluster) Sleep(id int) { c.leave(id, func(m *member) { m.asleep = true }) }

func (c *Cluster) leave(id int, how func(*member)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[id]
	for _, other := range c.members {
		c.leaderless(other) // they have heard of it until now
	}
	led := c.led()
	how(m)
	if id != c.leader || !led {
		return
	}
	c.silent = time.Now()
	era := c.eras
	time.AfterFunc(c.cfg.Election, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.eras == era && !c.led() {
			c.elect()
		}
	})
}

// elect makes another member the leader, if a majority is there.
func (c *Cluster) elect() {
	var there []*member
	for i := range c.members {
		if m := c.members[(c.leader+1+i)%len(c.members)]; !m.away && !m.asleep {
			there = append(there, m)
		}
	}
	if 2*len(there) <= len(c.members) {
		return
	}
	c.depose(c.members[c.leader])
	c.leader = there[0].id
	c.term++
	c.eras++
	for _, m := range there {
		c.hears(m)
	}
	c.follow(there[0], len(c.log))
	var late []renewal
	for _, id := range slices.Sorted(maps.Keys(c.state.leases)) { // it does not know how long they have lasted
		l := c.state.leases[id]
		l.expiry = c.expiry(l.ttl).Add(c.cfg.Election)
		late = append(late, l.late...)
		l.late = nil
	}
	for _, r := range late {
		r.again()
	}
	c.resume()
}

// resume goes on with what has waited for a leader.
func (c *Cluster) resume() {
	for _, m := range c.members {
		if m.asleep || !c.reaches(m) {
			continue
		}
		all := m.stuck
		m.stuck = nil
		for _, s := range all {
			s.try()
		}
	}
}

// Move has another member lead, as an operator would.
func (c *Cluster) Move() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.members) > 1 && c.led() {
		c.elect()
	}
}

// Return ends what Isolate or Sleep began. Proposals that a leader had got while it slept are passed on to its successor,
// or lost.
func (c *Cluster) Return(id int, late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[id]
	m.away, m.asleep = false, false
	m.since = time.Now()
	if !c.led() {
		c.elect()
	}
	c.meets(m)
	inbox := m.inbox
	m.inbox = nil
	if late && c.led() {
		for _, s := range inbox {
			s.try()
		}
	}
	c.resume()
}

// Compact forgets all but the present state.
func (c *Cluster) Compact() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.state.compact(c.state.rev) // it may be compacted already
}

// Backup is one that is put back.
type Backup struct {
	Fewer int   // how many entries of the log it lacks
	Bump  int64 // by how much the revision goes up, which is then compacted: --bump-revision and --mark-compacted
	Since int   // how many other writes are made right after that
}

// bump is an entry of the log that a backup was put back with.
type bump struct {
	proto.Message
	by int64
}

// Elsewhere is where others write after a backup was put back.
const Elsewhere = "elsewhere"

// Restore has the cluster begin again with a backup. All leases have their whole TTL. The servers are stopped for it, so all
// streams break.
func (c *Cluster) Restore(b Backup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	down := status.Error(codes.Unavailable, "the server has stopped")
	for _, m := range c.members {
		all := append(m.stuck, m.inbox...)
		m.stuck, m.inbox, m.waiting = nil, nil, nil
		m.away, m.asleep = false, false
		m.reign = nil
		for _, s := range all {
			s.giveUp(down)
		}
		for len(m.streams) > 0 {
			m.streams[0].broken(down)
		}
	}
	log := slices.Clone(c.log[:max(0, len(c.log)-b.Fewer)])
	if b.Bump > 0 {
		log = append(log, bump{by: b.Bump})
	}
	for range b.Since {
		log = append(log, &pb.PutRequest{Key: []byte(Elsewhere)})
	}
	c.log, c.revs = nil, nil
	c.state = &change{store: newStore(), lessor: newLessor()}
	c.term = firstTerm // a backup knows nothing of terms
	c.eras++
	for _, m := range c.members {
		m.applied, m.term = 0, c.term
	}
	for _, r := range log {
		_, _ = c.apply(r)
		c.log = append(c.log, r)
		c.revs = append(c.revs, c.state.rev)
	}
	for _, m := range c.members {
		m.applied = len(c.log)
	}
}

// What a member may say to a request that it does not pass on.
var (
	Denied       = rpctypes.ErrGRPCPermissionDenied
	InvalidToken = rpctypes.ErrGRPCInvalidAuthToken
	Crowded      = rpctypes.ErrGRPCRequestTooManyRequests
	Learner      = rpctypes.ErrGRPCNotSupportedForLearner
	NewLeader    = rpctypes.ErrGRPCLeaderChanged
)

// Full is what a member says to a request that it has applied, when that has used up its quota.
var Full = rpctypes.ErrGRPCNoSpace

// Puts reports whether a request needs space.
func Puts(r any) bool {
	switch r := r.(type) {
	case *pb.PutRequest, *pb.LeaseGrantRequest:
		return true
	case *pb.TxnRequest:
		for _, op := range append(slices.Clip(r.Success), r.Failure...) {
			if op.GetRequestPut() != nil {
				return true
			}
		}
	}
	return false
}
