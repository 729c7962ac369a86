package etcd

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
)

// view is what one contender wants to see of its line.
type view struct {
	line  string
	sight driver.Sight
}

type keyRange struct{ from, to string }

// ranges are the keys to read. The kind is part of the key, so a reader's look costs nothing for the readers ahead.
func (l layout) ranges(v view) []keyRange {
	from := l.line(v.line)
	end := clientv3.GetPrefixRangeEnd(from)
	if l.names == Stock {
		return []keyRange{{from, end}}
	}
	line := from
	var ranges []keyRange
	for _, kind := range slices.Compact(slices.Sorted(slices.Values(v.sight.Ignore))) {
		past := line + kind + "/"
		ranges = append(ranges, keyRange{from, past})
		from = clientv3.GetPrefixRangeEnd(past)
	}
	return append(ranges, keyRange{from, end})
}

// reads are the operations of a look at what is there now. Of the nearest only the key is read: data may be large. Of
// all the values are read too, since these tell the kinds of those that were amended, which may be many.
func (l layout) reads(v view, opts ...clientv3.OpOption) []clientv3.Op {
	if !v.sight.All {
		opts = append(opts, clientv3.WithKeysOnly(),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(1))
	}
	var ops []clientv3.Op
	for _, r := range l.ranges(v) {
		ops = append(ops, clientv3.OpGet(r.from, append([]clientv3.OpOption{clientv3.WithRange(r.to)}, opts...)...))
	}
	return ops
}

// glance is what a look has shown, in order.
type glance struct {
	nodes   []driver.Node
	amended map[string]int64 // mod revision, by ID, of those that were changed since they joined
	all     int64            // how many keys there are where it looked, contenders or not
	short   bool             // there may be more in sight: what was nearest is none of those
}

// see works on the answers of reads. Contenders that were amended may have another kind than their keys say; settle
// finds out.
func (l layout) see(v view, answers []*pb.ResponseOp) glance {
	var g glance
	for _, a := range answers {
		kvs := a.GetResponseRange().GetKvs()
		g.all += a.GetResponseRange().GetCount()
		hidden := false
		for _, kv := range kvs {
			n, ok := l.node(v.line, kv)
			if ok && v.sight.All {
				l.decodeKind(&n, kv.GetValue())
			}
			if ok && v.sight.Sees(n.Kind) {
				g.add(n, kv)
			} else {
				hidden = true
			}
		}
		g.short = g.short || hidden && !v.sight.All
	}
	slices.SortFunc(g.nodes, byToken)
	return g
}

func byToken(a, b driver.Node) int { return cmp.Compare(a.Token, b.Token) }

func (g *glance) add(n driver.Node, kv *mvccpb.KeyValue) {
	g.nodes = append(g.nodes, n)
	if kv.GetModRevision() != kv.GetCreateRevision() {
		if g.amended == nil {
			g.amended = make(map[string]int64)
		}
		g.amended[n.ID] = kv.GetModRevision()
	}
}

// settle completes a glance at revision rev with what keys alone don't tell.
//
// What was amended out of sight is found here; nothing is ever amended into it, see Amend.
func (s *session) settle(ctx context.Context, v view, g glance, rev, before int64) (glance, error) {
	if !g.short && len(g.amended) > 0 && !v.sight.All {
		if err := s.readKinds(ctx, &g, rev); err != nil {
			return g, err
		}
		seen := len(g.nodes)
		g.nodes = slices.DeleteFunc(g.nodes, func(n driver.Node) bool { return !v.sight.Sees(n.Kind) })
		g.short = len(g.nodes) < seen && !v.sight.All
	}
	if !g.short {
		return g, nil
	}
	// Something that is not in the way hides what may be: a writer that has become a reader, a foreign key. That is
	// rare, so it may cost a look at all of them.
	all := v
	all.sight.All = true
	ops := func(opts ...clientv3.OpOption) []clientv3.Op {
		return s.d.names.reads(all, append(opts, clientv3.WithMaxCreateRev(before))...)
	}
	answer, rev, err := s.readAt(ctx, "look at the line", rev, ops)
	if err != nil {
		return g, err
	}
	return s.settle(ctx, all, s.d.names.see(all, answer), rev, before)
}

// readKinds reads the values of those that were amended, since they tell the kind.
func (s *session) readKinds(ctx context.Context, g *glance, rev int64) error {
	var which []int
	for i, n := range g.nodes {
		if g.amended[n.ID] > 0 {
			which = append(which, i)
		}
	}
	for part := range slices.Chunk(which, maxOps) {
		ops := func(opts ...clientv3.OpOption) []clientv3.Op {
			var ops []clientv3.Op
			for _, i := range part {
				key, _, _ := parseID(g.nodes[i].ID)
				ops = append(ops, clientv3.OpGet(key, opts...))
			}
			return ops
		}
		answer, _, err := s.readAt(ctx, "read the kinds", rev, ops)
		if err != nil {
			return err
		}
		for i, a := range answer {
			n := &g.nodes[part[i]]
			if kv := incarnation(a, n.ID); kv != nil {
				s.d.names.decodeKind(n, kv.GetValue())
			}
		}
	}
	return nil
}

// maxOps is below what etcd allows in a transaction, 128.
const maxOps = 100

// incarnation is the answer to a read of one key if it is that incarnation, else nil.
func incarnation(a *pb.ResponseOp, id string) *mvccpb.KeyValue {
	kvs := a.GetResponseRange().GetKvs()
	if len(kvs) == 1 && nodeID(string(kvs[0].GetKey()), kvs[0].GetCreateRevision()) == id {
		return kvs[0]
	}
	return nil
}

// readAt reads what was there at revision rev, from whichever member is asked; such a read needs no agreement and is
// exact. Where it can't be had it reads what is there now. It returns which revision it has read.
func (s *session) readAt(ctx context.Context, what string, rev int64, ops func(...clientv3.OpOption) []clientv3.Op) ([]*pb.ResponseOp, int64, error) {
	select {
	case s.looks <- struct{}{}:
		defer func() { <-s.looks }()
	case <-ctx.Done():
		return nil, 0, unanswered(ctx, what, nil)
	}
	if rev > 0 {
		at := ops(clientv3.WithRev(rev), clientv3.WithSerializable())
		for range 3 {
			answer, err := s.read(ctx, what, at)
			if err == nil {
				return answer.Responses, rev, nil
			}
			if is(err, rpctypes.ErrFutureRev) { // the member lags behind; it catches up in no time, or another is asked
				if sleep(ctx, 2*time.Millisecond) == nil {
					continue
				}
			}
			if !is(err, rpctypes.ErrFutureRev) && !is(err, rpctypes.ErrCompacted) {
				return nil, 0, err
			}
			break
		}
	}
	since := s.epoch.rev.Load()
	answer, err := s.read(ctx, what, ops())
	if err != nil {
		return nil, 0, err
	}
	return answer.Responses, answer.Header.Revision, s.goesOn(answer.Header.Revision, since)
}

func (s *session) read(ctx context.Context, what string, ops []clientv3.Op) (*clientv3.TxnResponse, error) {
	var answer *clientv3.TxnResponse
	err := s.d.ask(ctx, what, func(ctx context.Context) (err error) {
		answer, err = s.d.kv.Txn(ctx).Then(ops...).Commit()
		return err
	})
	return answer, err
}

// look returns what stands ahead of own at revision rev or later, 0: now, and whether own itself stands.
func (s *session) look(ctx context.Context, v view, own *standing, rev int64) (ahead []driver.Node, stands bool, at int64, err error) {
	ops := func(opts ...clientv3.OpOption) []clientv3.Op {
		self := clientv3.OpGet(own.key, append(slices.Clone(opts), clientv3.WithKeysOnly())...)
		return append([]clientv3.Op{self}, s.d.names.reads(v, append(opts, clientv3.WithMaxCreateRev(own.created-1))...)...)
	}
	answer, at, err := s.readAt(ctx, "look at the line", rev, ops)
	if err != nil {
		return nil, false, 0, err
	}
	if incarnation(answer[0], own.node.ID) == nil {
		return nil, false, at, nil
	}
	g, err := s.settle(ctx, v, s.d.names.see(v, answer[1:]), at, own.created-1)
	if err != nil {
		return nil, false, 0, err
	}
	own.remember(v, g)
	return g.nodes, true, at, nil
}

// remember keeps of a look what the next Await has to know.
func (own *standing) remember(v view, g glance) {
	last := &sighting{sight: v.sight, amended: g.amended, only: g.all == 1 && len(g.nodes) == 1}
	if len(g.nodes) > 0 {
		last.nearest = g.nodes[len(g.nodes)-1].ID
	}
	own.last.Store(last)
}

// saw is what the last look showed; nothing if it was in another sight.
func (own *standing) saw(sight driver.Sight) *sighting {
	last := own.last.Load()
	if last == nil || !slices.Equal(last.sight.Ignore, sight.Ignore) {
		return &sighting{}
	}
	return last
}

// leftValue is what the left key holds when this incarnation left as the holder.
func leftValue(created int64) string { return strconv.FormatInt(created, 10) }
