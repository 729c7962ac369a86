package etcdcluster

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// store is the keys in all their versions. A member that lags behind sees the same store as it was at an earlier revision.
type store struct {
	rev       int64
	compacted int64
	names     []string // of all keys that ever were, in order
	keys      map[string][]version
	deltas    [][]*mvccpb.Event // by revision: what happened there
}

// version is what became of a key at a revision.
type version struct {
	*mvccpb.KeyValue
	gone bool // then only ModRevision counts
}

func newStore() *store {
	return &store{rev: 1, keys: make(map[string][]version), deltas: make([][]*mvccpb.Event, 2)}
}

// within reports whether a key is in a range, as requests give it.
func within(key, from, end string) bool {
	switch end {
	case "":
		return key == from
	case "\x00":
		return key >= from
	}
	return key >= from && key < end
}

// at returns a key as it was at a revision; nil: it was not there.
func (s *store) at(key string, rev int64) *mvccpb.KeyValue {
	all := s.keys[key]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].ModRevision <= rev {
			if all[i].gone {
				return nil
			}
			return all[i].KeyValue
		}
	}
	return nil
}

// find returns the keys of a range as they were at a revision, in order.
func (s *store) find(from, end []byte, rev int64) (kvs []*mvccpb.KeyValue) {
	if len(end) == 0 {
		if kv := s.at(string(from), rev); kv != nil {
			kvs = append(kvs, kv)
		}
		return kvs
	}
	first, _ := slices.BinarySearch(s.names, string(from))
	for _, name := range s.names[first:] {
		if !within(name, string(from), string(end)) {
			break
		}
		if kv := s.at(name, rev); kv != nil {
			kvs = append(kvs, kv)
		}
	}
	return kvs
}

// read checks the revision that a read asks for, and returns it. The reader sees the store at now.
func (s *store) read(asked, now int64) (int64, error) {
	switch {
	case asked > now:
		return 0, rpctypes.ErrGRPCFutureRev
	case asked <= 0:
		return now, nil
	case asked < s.compacted:
		return 0, rpctypes.ErrGRPCCompacted
	}
	return asked, nil
}

// filtered leaves those keys whose revisions a request asks for, if it says.
func filtered(kvs []*mvccpb.KeyValue, r *pb.RangeRequest) (left []*mvccpb.KeyValue, filters bool) {
	left = slices.DeleteFunc(kvs, func(kv *mvccpb.KeyValue) bool {
		return r.MaxModRevision != 0 && kv.ModRevision > r.MaxModRevision || kv.ModRevision < r.MinModRevision ||
			r.MaxCreateRevision != 0 && kv.CreateRevision > r.MaxCreateRevision || kv.CreateRevision < r.MinCreateRevision
	})
	return left, r.MinModRevision != 0 || r.MaxModRevision != 0 || r.MinCreateRevision != 0 || r.MaxCreateRevision != 0
}

func (s *store) ranges(r *pb.RangeRequest, now int64) (*pb.RangeResponse, error) {
	rev, err := s.read(r.Revision, now)
	if err != nil {
		return nil, err
	}
	kvs := s.find(r.Key, r.RangeEnd, rev)
	answer := &pb.RangeResponse{Header: &pb.ResponseHeader{Revision: now}, Count: int64(len(kvs))}
	if r.CountOnly {
		return answer, nil
	}
	kvs, filters := filtered(kvs, r)
	plain := r.SortOrder == pb.RangeRequest_NONE || r.SortTarget == pb.RangeRequest_KEY && r.SortOrder == pb.RangeRequest_ASCEND
	if r.Limit > 0 && plain && !filters { // no more than these are read, whatever they are sorted by
		kvs = kvs[:min(int64(len(kvs)), r.Limit+1)]
	}
	arrange(kvs, r.SortTarget, r.SortOrder)
	if r.Limit > 0 && int64(len(kvs)) > r.Limit {
		kvs, answer.More = kvs[:r.Limit], true
	}
	for _, kv := range kvs {
		if kv = clone(kv); r.KeysOnly {
			kv.Value = nil
			if r.SortTarget != pb.RangeRequest_VALUE { // then it comes from the index
				kv.Lease = 0
			}
		}
		answer.Kvs = append(answer.Kvs, kv)
	}
	return answer, nil
}

func arrange(kvs []*mvccpb.KeyValue, by pb.RangeRequest_SortTarget, order pb.RangeRequest_SortOrder) {
	if order == pb.RangeRequest_NONE && by == pb.RangeRequest_KEY {
		return
	}
	compare := func(a, b *mvccpb.KeyValue) int {
		switch by {
		case pb.RangeRequest_VERSION:
			return cmp.Compare(a.Version, b.Version)
		case pb.RangeRequest_CREATE:
			return cmp.Compare(a.CreateRevision, b.CreateRevision)
		case pb.RangeRequest_MOD:
			return cmp.Compare(a.ModRevision, b.ModRevision)
		case pb.RangeRequest_VALUE:
			return bytes.Compare(a.Value, b.Value)
		}
		return bytes.Compare(a.Key, b.Key)
	}
	less := func(i, j int) bool { return compare(kvs[i], kvs[j]) < 0 }
	if order == pb.RangeRequest_DESCEND {
		less = func(i, j int) bool { return compare(kvs[i], kvs[j]) > 0 }
	}
	sort.SliceStable(kvs, less)
}

// change is a transaction that writes. All that it does has one revision.
type change struct {
	*store
	*lessor
	events []*mvccpb.Event
}

// now is the revision that the change has come to.
func (c *change) now() int64 {
	if len(c.events) > 0 {
		return c.rev + 1
	}
	return c.rev
}

// done makes the change's revision that of the store.
func (c *change) done() {
	if len(c.events) > 0 {
		c.rev++
		c.deltas = append(c.deltas, c.events)
	}
}

func (c *change) write(v version, kind mvccpb.Event_EventType) {
	name := string(v.Key)
	if _, known := c.keys[name]; !known {
		i, _ := slices.BinarySearch(c.names, name)
		c.names = slices.Insert(c.names, i, name)
	}
	c.keys[name] = append(c.keys[name], v)
	c.events = append(c.events, &mvccpb.Event{Type: kind, Kv: v.KeyValue})
}

func (c *change) put(r *pb.PutRequest) *pb.PutResponse {
	before := c.at(string(r.Key), c.rev+1)
	kv := &mvccpb.KeyValue{Key: r.Key, Value: r.Value, Lease: r.Lease, ModRevision: c.rev + 1, CreateRevision: c.rev + 1, Version: 1}
	if before != nil {
		kv.CreateRevision, kv.Version = before.CreateRevision, before.Version+1
		if r.IgnoreValue {
			kv.Value = before.Value
		}
		if r.IgnoreLease {
			kv.Lease = before.Lease
		}
	}
	c.attach(string(r.Key), kv.Lease)
	c.write(version{kv, false}, mvccpb.Event_PUT)
	answer := &pb.PutResponse{Header: &pb.ResponseHeader{Revision: c.rev + 1}}
	if r.PrevKv && before != nil {
		answer.PrevKv = clone(before)
	}
	return answer
}

// mayPut checks a put against what was there before the change.
func (c *change) mayPut(r *pb.PutRequest) error {
	switch {
	case r.Lease != 0 && c.leases[r.Lease] == nil:
		return rpctypes.ErrGRPCLeaseNotFound
	case (r.IgnoreValue || r.IgnoreLease) && c.at(string(r.Key), c.rev) == nil:
		return rpctypes.ErrGRPCKeyNotFound
	}
	return nil
}

func (c *change) remove(r *pb.DeleteRangeRequest) *pb.DeleteRangeResponse {
	answer := &pb.DeleteRangeResponse{}
	for _, kv := range c.find(r.Key, r.RangeEnd, c.now()) {
		if answer.Deleted++; r.PrevKv {
			answer.PrevKvs = append(answer.PrevKvs, clone(kv))
		}
		c.attach(string(kv.Key), 0)
		c.write(version{&mvccpb.KeyValue{Key: kv.Key, ModRevision: c.rev + 1}, true}, mvccpb.Event_DELETE)
	}
	answer.Header = &pb.ResponseHeader{Revision: c.now()}
	return answer
}

// paths evaluates all comparisons first: those of inner transactions see nothing of what is written before them.
func (c *change) paths(r *pb.TxnRequest, now int64) []bool {
	yes := !slices.ContainsFunc(r.Compare, func(cmp *pb.Compare) bool { return !c.holds(cmp, now) })
	all := []bool{yes}
	for _, op := range chosen(r, yes) {
		if inner := op.GetRequestTxn(); inner != nil {
			all = append(all, c.paths(inner, now)...)
		}
	}
	return all
}

func chosen(r *pb.TxnRequest, yes bool) []*pb.RequestOp {
	if yes {
		return r.Success
	}
	return r.Failure
}

func (c *change) holds(q *pb.Compare, now int64) bool {
	kvs := c.find(q.Key, q.RangeEnd, now)
	if len(kvs) == 0 {
		if q.Target == pb.Compare_VALUE {
			return false
		}
		kvs = []*mvccpb.KeyValue{{}}
	}
	return !slices.ContainsFunc(kvs, func(kv *mvccpb.KeyValue) bool { return !compares(q, kv) })
}

func compares(q *pb.Compare, kv *mvccpb.KeyValue) bool {
	result := 0
	switch q.Target {
	case pb.Compare_VALUE:
		result = bytes.Compare(kv.Value, q.GetValue())
	case pb.Compare_CREATE:
		result = cmp.Compare(kv.CreateRevision, q.GetCreateRevision())
	case pb.Compare_MOD:
		result = cmp.Compare(kv.ModRevision, q.GetModRevision())
	case pb.Compare_VERSION:
		result = cmp.Compare(kv.Version, q.GetVersion())
	case pb.Compare_LEASE:
		result = cmp.Compare(kv.Lease, q.GetLease())
	}
	switch q.Result {
	case pb.Compare_EQUAL:
		return result == 0
	case pb.Compare_NOT_EQUAL:
		return result != 0
	case pb.Compare_GREATER:
		return result > 0
	}
	return result < 0
}

// may checks all that a transaction would do, before it does any of it.
func (c *change) may(r *pb.TxnRequest, path []bool, now int64) (rest []bool, err error) {
	ops := chosen(r, path[0])
	rest = path[1:]
	for _, op := range ops {
		switch {
		case op.GetRequestRange() != nil:
			_, err = c.read(op.GetRequestRange().Revision, now)
		case op.GetRequestPut() != nil:
			err = c.mayPut(op.GetRequestPut())
		case op.GetRequestTxn() != nil:
			rest, err = c.may(op.GetRequestTxn(), rest, now)
		}
		if err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// txn is a transaction. One that only reads sees the store at now.
func (c *change) txn(r *pb.TxnRequest, now int64) (*pb.TxnResponse, error) {
	path := c.paths(r, now)
	if _, err := c.may(r, path, now); err != nil {
		return nil, err
	}
	reads := onlyReads(r)
	answer, _ := c.run(r, path, func() int64 {
		if reads {
			return now
		}
		return c.now()
	})
	if answer.Header.Revision = now; !reads {
		answer.Header.Revision = c.now()
	}
	return answer, nil
}

func (c *change) run(r *pb.TxnRequest, path []bool, now func() int64) (*pb.TxnResponse, []bool) {
	answer := &pb.TxnResponse{Header: &pb.ResponseHeader{}, Succeeded: path[0]}
	ops := chosen(r, path[0])
	path = path[1:]
	for _, op := range ops {
		one := &pb.ResponseOp{}
		switch {
		case op.GetRequestRange() != nil:
			found, err := c.ranges(op.GetRequestRange(), now())
			if err != nil {
				panic(err) // it has been checked
			}
			one.Response = &pb.ResponseOp_ResponseRange{ResponseRange: found}
		case op.GetRequestPut() != nil:
			one.Response = &pb.ResponseOp_ResponsePut{ResponsePut: c.put(op.GetRequestPut())}
		case op.GetRequestDeleteRange() != nil:
			one.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: c.remove(op.GetRequestDeleteRange())}
		case op.GetRequestTxn() != nil:
			var inner *pb.TxnResponse
			inner, path = c.run(op.GetRequestTxn(), path, now)
			one.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: inner}
		}
		answer.Responses = append(answer.Responses, one)
	}
	return answer, path
}

func onlyReads(r *pb.TxnRequest) bool {
	return !slices.ContainsFunc(slices.Concat(r.Success, r.Failure), func(op *pb.RequestOp) bool { return op.GetRequestRange() == nil })
}

func serializable(r *pb.TxnRequest) bool {
	return !slices.ContainsFunc(slices.Concat(r.Success, r.Failure), func(op *pb.RequestOp) bool {
		return op.GetRequestRange() == nil || !op.GetRequestRange().Serializable
	})
}

// raise has the next revision be that much greater, and compacts all before.
func (s *store) raise(by int64) {
	s.rev += by
	s.deltas = append(s.deltas, make([][]*mvccpb.Event, by)...)
	s.compacted = s.rev
}

func (s *store) compact(rev int64) error {
	switch {
	case rev <= s.compacted:
		return rpctypes.ErrGRPCCompacted
	case rev > s.rev:
		return rpctypes.ErrGRPCFutureRev
	}
	s.compacted = rev
	return nil
}

// since returns what happened to a range after a revision, up to another.
func (s *store) since(key, end string, from, to int64) (all []*mvccpb.Event) {
	for rev := from + 1; rev <= to; rev++ {
		for _, e := range s.deltas[rev] {
			if within(string(e.Kv.Key), key, end) {
				all = append(all, e)
			}
		}
	}
	return all
}

// all returns the keys with a prefix as they stand now.
func (s *store) all(prefix string) (kvs []*mvccpb.KeyValue) {
	for _, name := range s.names {
		if kv := s.at(name, s.rev); kv != nil && strings.HasPrefix(name, prefix) {
			kvs = append(kvs, kv)
		}
	}
	return kvs
}

func clone(kv *mvccpb.KeyValue) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{Key: kv.Key, Value: kv.Value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version, Lease: kv.Lease}
}
