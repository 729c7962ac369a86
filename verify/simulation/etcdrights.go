package simulation

import (
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// rights are what everybody lacks below a prefix, as if a role had been changed.
type rights struct {
	prefix      string
	read, write bool // these are lacking
}

// forbid takes rights away from everybody; nil gives all back.
func (f *etcd) forbid(r *rights) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lacking = r
}

// forbids reports whether a request needs a right that is lacking. Watches that are there go on, as on etcd.
func (f *etcd) forbids(r proto.Message) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lacking == nil {
		return false
	}
	if lease, ok := r.(*pb.LeaseRevokeRequest); ok && f.lacking.write {
		for _, kv := range f.cluster.Keys(f.lacking.prefix) {
			if kv.Lease == lease.ID {
				return true
			}
		}
	}
	return f.lacking.forbids(r)
}

func (r *rights) forbids(asked proto.Message) bool {
	below := func(key []byte) bool { return strings.HasPrefix(string(key), r.prefix) }
	switch asked := asked.(type) {
	case *pb.RangeRequest:
		return r.read && below(asked.Key)
	case *pb.PutRequest:
		return r.write && below(asked.Key) || r.read && asked.PrevKv && below(asked.Key)
	case *pb.DeleteRangeRequest:
		return r.write && below(asked.Key) || r.read && asked.PrevKv && below(asked.Key)
	case *pb.WatchCreateRequest:
		return r.read && below(asked.Key)
	case *pb.TxnRequest:
		for _, c := range asked.Compare {
			if r.read && below(c.Key) {
				return true
			}
		}
		for _, op := range append(asked.Success[:len(asked.Success):len(asked.Success)], asked.Failure...) {
			var inner proto.Message
			switch op := op.Request.(type) {
			case *pb.RequestOp_RequestRange:
				inner = op.RequestRange
			case *pb.RequestOp_RequestPut:
				inner = op.RequestPut
			case *pb.RequestOp_RequestDeleteRange:
				inner = op.RequestDeleteRange
			case *pb.RequestOp_RequestTxn:
				inner = op.RequestTxn
			}
			if r.forbids(inner) {
				return true
			}
		}
	}
	return false
}

// reduce takes rights away for a while.
func (w *world) reduce(r rights, d time.Duration) {
	w.deniedUntil(time.Now().Add(d))
	w.etcd().forbid(&r)
	w.lasts(d, func() {
		w.deniedUntil(time.Now())
		w.etcd().forbid(nil)
	})
}

// refusalRest is how long a watch that was refused may rest: it is asked for again within a second.
const refusalRest = scriptTTL * 3 / 5

// reduceSome takes some rights to a line, or to everything, away for a while.
func (w *world) reduceSome(d time.Duration) string {
	w.nap = max(w.nap, refusalRest)
	r := rights{prefix: root, read: w.rand.IntN(2) == 0}
	r.write = !r.read || w.rand.IntN(2) == 0
	if w.rand.IntN(3) > 0 {
		r.prefix += w.lines[w.rand.IntN(len(w.lines))] + "/"
	}
	w.reduce(r, d)
	return fmt.Sprintf("FAULT nobody may read (%v) or write (%v) below %s for %v", r.read, r.write, r.prefix, d)
}

func reduced(r rights) func(*script, parcel) {
	return func(s *script, _ parcel) {
		s.nap = refusalRest
		s.reduce(r, scriptTTL*2/3)
		s.broken = later(s.broken, time.Now().Add(scriptTTL*2/3))
	}
}
