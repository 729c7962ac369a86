package etcdcluster

import (
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// lessor keeps the leases, as the leader does: they end by its clock.
type lessor struct {
	leases map[int64]*lease
	holds  map[string]int64 // by key
}

type lease struct {
	id, ttl int64
	expiry  time.Time
	keys    map[string]bool
	late    []renewal // those that came when it had expired
}

// renewal is one that came when the lease had expired. It is answered when the lease has ended, or passed on to the next
// leader.
type renewal struct{ ended, again func() }

func newLessor() *lessor { return &lessor{make(map[int64]*lease), make(map[string]int64)} }

// attach puts a key on a lease, and takes it from the one that it was on; 0 is none.
func (l *lessor) attach(key string, id int64) {
	if old := l.leases[l.holds[key]]; old != nil {
		delete(old.keys, key)
	}
	delete(l.holds, key)
	if on := l.leases[id]; on != nil {
		on.keys[key] = true
		l.holds[key] = id
	}
}

func (l *lessor) grant(r *pb.LeaseGrantRequest, least int64, expiry func(ttl int64) time.Time) (*pb.LeaseGrantResponse, error) {
	switch {
	case r.TTL > maxTTL:
		return nil, rpctypes.ErrGRPCLeaseTTLTooLarge
	case l.leases[r.ID] != nil:
		return nil, rpctypes.ErrGRPCLeaseExist
	}
	ttl := max(r.TTL, least)
	l.leases[r.ID] = &lease{id: r.ID, ttl: ttl, expiry: expiry(ttl), keys: make(map[string]bool)}
	return &pb.LeaseGrantResponse{Header: &pb.ResponseHeader{}, ID: r.ID, TTL: ttl}, nil
}

// revoke ends a lease. All its keys go at one revision.
func (c *change) revoke(id int64) error {
	l := c.leases[id]
	if l == nil {
		return rpctypes.ErrGRPCLeaseNotFound
	}
	for _, key := range slices.Sorted(maps.Keys(l.keys)) {
		c.remove(&pb.DeleteRangeRequest{Key: []byte(key)})
	}
	delete(c.leases, id)
	return nil
}
