package etcd

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// view is what a contender wants to see of its line.
type view struct {
	line  string
	sight driver.Sight
}

type keyRange struct{ from, to string }

// ranges returns the ranges of keys to read. The kind is part of the key, so a reader's look costs nothing for the readers
// ahead.
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

// reads returns the operations of a look at what is there now. If the nearest is enough, only its key is read: data may
// be large. If more are wanted, their values are read as well: they tell the kinds of amended contenders, of which there
// may be many.
func (l layout) reads(v view, opts ...clientv3.OpOption) []clientv3.Op {
	if n := v.sight.Depth(); n == 1 {
		opts = append(opts, clientv3.WithKeysOnly())
	}
	if n := v.sight.Depth(); n < driver.All {
		opts = append(opts, clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(int64(n)))
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
	all     int64            // how many keys there are in the ranges, contenders or not
	short   bool             // there may be more in sight: one of the nearest keys was not in sight
}

// see makes a glance of the answers to reads. Contenders that were amended may have another kind than their keys say;
// complete finds that out.
func (l layout) see(v view, answers []*pb.ResponseOp) glance {
	var g glance
	for _, a := range answers {
		g.all += a.GetResponseRange().GetCount()
		hidden := false
		for _, kv := range a.GetResponseRange().GetKvs() {
			n, ok := l.node(v.line, kv)
			if ok && v.sight.Depth() > 1 {
				l.decodeKind(&n, kv.GetValue())
			}
			if ok && v.sight.Sees(n.Kind) {
				g.add(n, kv)
			} else {
				hidden = true
			}
		}
		g.short = g.short || hidden && v.sight.Nearest < driver.All
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

// complete adds to a glance at revision rev what the keys alone do not tell about those that joined up to revision last.
//
// It leaves out contenders that were amended out of sight; none is ever amended into sight, see Amend.
func (s *session) complete(ctx context.Context, v view, g glance, rev, last int64) (glance, error) {
	if !g.short && len(g.amended) > 0 && v.sight.Depth() == 1 {
		out, err := s.readKinds(ctx, v, &g, rev)
		if err != nil {
			return g, err
		}
		g.short = out
	}
	if !g.short {
		return g, nil
	}
	// Something that is not in the way hides something that may be: a writer that has become a reader, or a foreign key. That
	// is rare, so it may cost a look at all of them. The values of foreign keys are not read: they may be large.
	v.sight.Nearest = driver.All
	answer, _, err := s.readAt(ctx, "look at the line", rev, func(opts ...clientv3.OpOption) []clientv3.Op {
		return s.d.keys.reads(v, append(opts, clientv3.WithMaxCreateRev(last), clientv3.WithKeysOnly())...)
	})
	if err != nil {
		return g, err
	}
	g = s.d.keys.see(v, answer)
	_, err = s.readKinds(ctx, v, &g, rev)
	return g, err
}

// readKinds reads the values of amended contenders, which tell their kinds, and leaves out those that are out of sight. It
// reports whether there were any.
func (s *session) readKinds(ctx context.Context, v view, g *glance, rev int64) (fewer bool, _ error) {
	var which []*driver.Node
	for i := range g.nodes {
		if n := &g.nodes[i]; g.amended[n.ID] > 0 {
			which = append(which, n)
		}
	}
	for len(which) > 0 {
		some := which[:min(len(which), s.d.bundle.size())]
		answer, _, err := s.readAt(ctx, "read the kinds", rev, func(opts ...clientv3.OpOption) (ops []clientv3.Op) {
			for _, n := range some {
				ops = append(ops, clientv3.OpGet(keyOf(n), opts...))
			}
			return ops
		})
		if is(err, rpctypes.ErrTooManyOps) && s.d.bundle.halve(len(some)) {
			continue
		}
		if err != nil {
			return false, err
		}
		for i, n := range some {
			if kv := incarnation(answer[i], int64(n.Token)); kv != nil {
				s.d.keys.decodeKind(n, kv.GetValue())
			}
		}
		which = which[len(some):]
	}
	seen := len(g.nodes)
	g.nodes = slices.DeleteFunc(g.nodes, func(n driver.Node) bool { return !v.sight.Sees(n.Kind) })
	return len(g.nodes) < seen, nil
}

// incarnation returns what a read of one key found if it is that incarnation, and nil otherwise.
func incarnation(a *pb.ResponseOp, created int64) *mvccpb.KeyValue {
	kvs := a.GetResponseRange().GetKvs()
	if len(kvs) == 1 && kvs[0].GetCreateRevision() == created {
		return kvs[0]
	}
	return nil
}

// isIncarnation makes the same check as a comparison, for writes.
func isIncarnation(key string, created int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", created)
}

// readAt reads what was there at revision rev, from whichever member is asked; such a read needs no agreement and is exact.
// If that is not available, or rev is 0, it reads what is there now. It returns the revision it has read.
func (s *session) readAt(ctx context.Context, what string, rev int64, ops func(...clientv3.OpOption) []clientv3.Op) ([]*pb.ResponseOp, int64, error) {
	if err := s.looks.enter(ctx); err != nil {
		return nil, 0, failed(what, err)
	}
	defer s.looks.exit()
	for tries := 0; rev > 0 && tries < 3; tries++ {
		answer, err := s.read(ctx, what, ops(clientv3.WithRev(rev), clientv3.WithSerializable()))
		switch {
		case err == nil:
			return answer.Responses, rev, nil
		case is(err, rpctypes.ErrCompacted):
			rev = 0
		case !is(err, rpctypes.ErrFutureRev):
			return nil, 0, err
		default: // the member lags behind; it will soon catch up, or another is asked
			_ = driverkit.Sleep(ctx, 2*time.Millisecond)
		}
	}
	answer, err := s.read(ctx, what, ops())
	if err != nil {
		return nil, 0, err
	}
	return answer.Responses, answer.Header.Revision, nil
}

func (s *session) read(ctx context.Context, what string, ops []clientv3.Op) (answer *clientv3.TxnResponse, err error) {
	err = s.d.retry(ctx, what, func(ctx context.Context) error {
		answer, err = s.txn(ctx, nil, ops, nil)
		return err
	})
	return answer, err
}

// look returns what stands ahead at revision rev or later (0: now), and which revision it read. It remembers what it has
// seen for the next Await.
func (p *place) look(ctx context.Context, rev int64) ([]driver.Node, int64, error) {
	era := p.watches.era()
	answer, rev, err := p.readAt(ctx, "look at the line", rev, func(opts ...clientv3.OpOption) []clientv3.Op {
		ahead := append(slices.Clone(opts), clientv3.WithMaxCreateRev(p.created-1))
		return append([]clientv3.Op{p.readOwn(opts...)}, p.d.keys.reads(p.view, ahead...)...)
	})
	if err != nil {
		return nil, 0, err
	}
	if incarnation(answer[0], p.created) == nil {
		return nil, 0, p.removed(ctx, rev)
	}
	g, err := p.complete(ctx, p.view, p.d.keys.see(p.view, answer[1:]), rev, p.created-1)
	if err != nil {
		return nil, 0, err
	}
	p.remember(g, era)
	return g.nodes, rev, nil
}

// readOwn is the operation that reads whether our own node is there.
func (p *place) readOwn(opts ...clientv3.OpOption) clientv3.Op {
	return clientv3.OpGet(p.key, append(slices.Clone(opts), clientv3.WithKeysOnly())...)
}

// lastLook is what an Await must know of the look before it.
type lastLook struct {
	era     int              // when it was
	nearest string           // the ID of the nearest in sight
	only    bool             // and nobody else in sight was ahead
	amended map[string]int64 // the mod revisions, by ID, of those in sight that had been amended
}

// remember keeps what a look has shown that was sent in that era.
func (p *place) remember(g glance, era int) {
	seen := lastLook{era: era, amended: g.amended, only: g.all == 1 && len(g.nodes) == 1}
	if len(g.nodes) > 0 {
		seen.nearest = g.nodes[len(g.nodes)-1].ID
	}
	switch {
	case len(p.sight.Ignore) > 0: // then it tells nothing of the others
	case len(g.nodes) == 0:
		p.ours.allGone(p.created, era)
	case g.all == int64(len(g.nodes)) || p.sight.Nearest == driver.All:
		p.ours.allGone(int64(g.nodes[0].Token), era)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = seen
}

func (p *place) lastSeen() lastLook {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

// lines is what a session knows of the lines that it stands in.
type lines struct {
	mu  sync.Mutex
	all map[string]*ourLine
}

// ourLine is a line in which places of ours stand.
type ourLine struct {
	name   string
	places int // guarded by lines.mu

	mu   sync.Mutex
	era  int   // when gone was read
	gone int64 // all who joined before this revision have gone; nobody ever joins ahead of others
}

// allGone records what was read in that era: all who joined before that revision have gone.
func (l *ourLine) allGone(before int64, era int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if era > l.era {
		l.era, l.gone = era, 0
	}
	if era == l.era {
		l.gone = max(l.gone, before)
	}
}

// isFirst reports whether all have gone, as was read in that era, who joined before the one that did at that revision.
func (l *ourLine) isFirst(created int64, era int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.era == era && l.gone >= created
}

// enter adds a place to a line.
func (l *lines) enter(name string) *ourLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := l.all[name]
	if st == nil {
		st = &ourLine{name: name}
		l.all[name] = st
	}
	st.places++
	return st
}

// stoodDown is called when a place's node has gone, or was never made and never will be.
func (p *place) stoodDown() {
	p.numbers.giveBack(p.number)
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	if p.ours.places--; p.ours.places == 0 {
		delete(p.lines.all, p.ours.name)
	}
}
