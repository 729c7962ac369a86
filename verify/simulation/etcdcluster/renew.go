package etcdcluster

import (
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Renew hands a renewal to a member, which asks the leader. Revision and term in the answer are from before.
func (c *Cluster) Renew(id int, lease int64, needsLeader bool, answer func(*pb.LeaseKeepAliveResponse, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[id]
	done := false
	c.renew(m, &pb.LeaseKeepAliveResponse{ID: lease}, needsLeader, func(r *pb.LeaseKeepAliveResponse, err error) {
		if !done {
			done = true
			answer(r, err)
		}
	})
}

// renew fills in the header before it looks for a leader, as etcd does.
func (c *Cluster) renew(m *member, said *pb.LeaseKeepAliveResponse, needsLeader bool, answer func(*pb.LeaseKeepAliveResponse, error)) {
	again := stuck{time.Now(), func() { c.renew(m, said, needsLeader, answer) }, func(err error) { answer(nil, err) }}
	if m.asleep {
		m.stuck = append(m.stuck, again)
		return
	}
	if said.Header == nil {
		said.Header = c.header(m)
	}
	if m.believes() {
		if m.renewAlone(said) {
			answer(said, nil)
		} else {
			m.stuck = append(m.stuck, again)
		}
		return
	}
	switch {
	case needsLeader && c.leaderless(m):
		answer(nil, rpctypes.ErrGRPCNoLeader)
		return
	case !c.reaches(m):
		m.stuck = append(m.stuck, again)
		return
	}
	l := c.state.leases[said.ID]
	switch {
	case l == nil:
		answer(said, nil)
	case !time.Now().Before(l.expiry):
		l.late = append(l.late, renewal{func() { answer(said, nil) }, again.try})
	default:
		l.expiry = c.expiry(l.ttl)
		said.TTL = l.ttl
		answer(said, nil)
	}
}

// Expiry returns when a lease ends if it is not renewed again; zero: there is none.
func (c *Cluster) Expiry(lease int64) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.state.leases[lease]; l != nil {
		return l.expiry
	}
	return time.Time{}
}
