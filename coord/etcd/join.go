package etcd

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// place is a contender of ours.
type place struct {
	*session
	view
	ours    *ourLine
	key     string
	number  int64 // in the key
	created int64 // the key's create revision
	last    bool
	joined  time.Time // when it began to join
	free    sync.Once // for when it is known to have gone

	wasRemoved atomic.Bool // by somebody else, while the session lived
	memoOpen   bool        // a memo's try had no answer, and may yet be applied; of the one Remember at a time

	mu       sync.Mutex
	node     driver.Node
	modified int64    // the mod revision, as far as we know
	seen     lastLook // what the last look saw
}

func (p *place) Node() driver.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node
}

func (p *place) Last() bool { return p.last }

// joining is a place that is being taken.
type joining struct {
	*place
	value  string
	entry  driver.Entry
	alone  bool  // put the node only if nobody is in sight
	since  int64 // a revision from before it began
	tokens int   // how often it was refused because of its token

	compared int64 // the epoch that the last transaction compared with
	open     bool  // the transaction may still be applied
}

// Join runs on the session's life, not on the caller's context: a request cancelled halfway has an open outcome, and
// settling that costs more than waiting for the reply and taking the node away.
func (s *session) Join(ctx context.Context, e driver.Entry) (driver.Place, []driver.Node, error) {
	if err := s.life.Stopped(ctx); err != nil {
		return nil, nil, err
	}
	if err := s.enterJoins(ctx); err != nil {
		return nil, nil, err
	}
	j := s.joining(e)
	ahead, err := driverkit.Deliver(ctx, s.life, j.run, func([]driver.Node) { j.undo() })
	if err != nil {
		return nil, nil, err
	}
	s.d.warnOfDeaf(ahead)
	return j.place, ahead, nil
}

// enterJoins waits on the caller's context: during an outage, a join that is given up leaves nothing behind unless it has
// been sent.
func (s *session) enterJoins(ctx context.Context) error {
	bound, unbind := s.life.Bind(ctx)
	defer unbind()
	if s.joins.enter(bound) != nil {
		return s.life.Stopped(ctx)
	}
	return nil
}

func (s *session) joining(e driver.Entry) *joining {
	p := &place{session: s, view: view{e.Line, e.Sight}, ours: s.lines.enter(e.Line), joined: time.Now()}
	p.takeNumber(e.Kind)
	p.node = driver.Node{Line: e.Line, Kind: e.Kind, Owner: e.Owner, Data: e.Data}
	return &joining{place: p, value: s.d.keys.encodeValue(e.Kind, &p.node), entry: e, alone: e.Free != nil, since: s.told.Load()}
}

func (p *place) takeNumber(kind string) {
	p.number, p.key = p.numbers.next(func(n int64) string { return p.d.keys.contender(p.line, kind, p.lease, n) })
}

func (j *joining) run(wanted func() bool) ([]driver.Node, error) {
	ahead, err := j.attempt(wanted)
	j.joins.exit()
	if err == nil && j.entry.InVain(ahead) {
		err = driver.ErrBusy
	}
	if err != nil {
		j.undo()
	}
	return ahead, j.life.Verdict(err)
}

// undo makes sure that nothing of the join stays. If the outcome is open, it does so in the background.
func (j *joining) undo() {
	if !j.open {
		_ = j.untilGone(j.life.Context(), j.takeBack)
		return
	}
	j.life.Errand(func() { _ = j.untilGone(j.life.Context(), j.takeBack) })
}

func (j *joining) takeBack(ctx context.Context) error {
	if j.open {
		err := j.settle(ctx)
		if is(err, rpctypes.ErrNoSpace) {
			return cmp.Or(j.takeForNow(ctx), err)
		}
		if err != nil {
			return err
		}
	}
	if j.created == 0 {
		j.free.Do(j.stoodDown)
		return nil
	}
	return j.depart(ctx)
}

// takeForNow takes the node away, if it is there, though the transaction may still be applied. A service without space makes
// no node and moves no epoch, but it lets nodes leave, and others would wait for this one until there is space again.
func (j *joining) takeForNow(ctx context.Context) error {
	return j.d.retry(ctx, "take back a node", func(ctx context.Context) error {
		got, err := j.d.get(ctx, j.key)
		if err != nil || len(got.Kvs) == 0 || got.Kvs[0].GetLease() != int64(j.lease) {
			return err
		}
		return j.leaving.try(ctx, departure{key: j.key, created: got.Kvs[0].GetCreateRevision()})
	})
}

// attempt tries until the outcome is known. After an error there may still be a node that has to go.
func (j *joining) attempt(wanted func() bool) ([]driver.Node, error) {
	for tries := 0; wanted(); tries++ {
		j.compared = j.epoch.rev.Load()
		era := j.watches.era()
		answer, err := j.send()
		switch {
		case err != nil:
			err = j.mend(err, tries)
		case answer.Succeeded:
			return j.made(answer.Header.Revision, answer.Responses[:len(answer.Responses)-1], era)
		default:
			err = j.whyNot(answer)
		}
		if err == nil && j.created == 0 && tries > 0 {
			err = j.pause(tries)
		}
		if err != nil {
			return nil, err
		}
		if j.created > 0 {
			ahead, _, err := j.look(j.life.Context(), j.created)
			return ahead, err
		}
	}
	return nil, context.Canceled
}

// pause lets others join meanwhile: who may write to one line can have all joins of that line try again, but of no other.
func (j *joining) pause(tries int) error {
	j.joins.exit()
	err := driverkit.Sleep(j.life.Context(), driverkit.Jitter(driverkit.Pause(tries)))
	j.joins <- struct{}{} // whoever has the place leaves it when the session ends, at the latest
	return err
}

// send sends the transaction that joins. A range before the put shows exactly those ahead. It puts the node only if it is
// not there: something between us and the service may send a transaction again although it was applied. An entry that joins
// only if it is free first asks for an empty line, and otherwise is shown who is there.
func (j *joining) send() (answer *clientv3.TxnResponse, err error) {
	keys := j.d.keys
	epoch := keys.epoch(j.lease)
	reads := keys.reads(j.view)
	ifs := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(epoch), "=", j.compared)}
	ifs = append(ifs, isIncarnation(j.key, 0))
	instead := []clientv3.Op{clientv3.OpGet(epoch, clientv3.WithKeysOnly()), clientv3.OpGet(j.key)}
	if j.alone {
		for _, r := range keys.ranges(j.view) {
			ifs = append(ifs, clientv3.Compare(clientv3.CreateRevision(r.from).WithRange(r.to), "=", 0))
		}
		instead = append(instead, reads...)
	}
	put := clientv3.OpPut(j.key, j.value, clientv3.WithLease(j.lease))
	err = j.d.once(j.life.Context(), func(ctx context.Context) error {
		answer, err = j.txn(ctx, ifs, append(reads, put), instead)
		return err
	})
	return answer, err
}

// whyNot finds out why the transaction put nothing. It returns nil if the node is already there, or to try again: the epoch
// has moved, the key is somebody else's, or somebody in line is not in the way.
func (j *joining) whyNot(answer *clientv3.TxnResponse) error {
	ctx, now := j.life.Context(), answer.Header.Revision
	kvs := answer.Responses[0].GetResponseRange().GetKvs()
	if len(kvs) == 0 { // gone with the lease, or removed by somebody else
		return j.check(ctx, now)
	}
	if own := answer.Responses[1].GetResponseRange().GetKvs(); len(own) > 0 {
		return j.adopt(ctx, own[0])
	}
	if epoch := kvs[0].GetModRevision(); epoch != j.compared {
		j.epoch.rev.Saw(epoch)
		return j.goesOn(epoch, j.compared) // others may have made up for the revisions that the service has lost
	}
	if !j.alone {
		return failed("join line "+j.line, errors.New("the service refused for no reason"))
	}
	g, err := j.complete(ctx, j.view, j.d.keys.see(j.view, answer.Responses[2:]), now, now)
	if err == nil && j.entry.InVain(g.nodes) {
		err = driver.ErrBusy
	}
	j.alone = false // those in line are not in the way, but a comparison cannot leave them out
	return err
}

// mend returns nil when it is time to try again, or when it has found the node after all.
func (j *joining) mend(err error, tries int) error {
	ctx := j.life.Context()
	switch {
	case is(err, rpctypes.ErrInvalidAuthToken) && j.tokens < maxTokens:
		j.tokens++
		return nil
	case is(err, rpctypes.ErrLeaseNotFound):
		return j.confirm(ctx)
	case is(err, rpctypes.ErrTooManyRequests): // it was not even proposed
		return driverkit.Sleep(ctx, driverkit.Jitter(driverkit.Pause(tries+3)))
	case isTooLarge(err): // the answer was, not what was sent: it may have been applied
		if settled := j.settle(ctx); settled != nil {
			return settled
		}
		return failed("join line "+j.line, err)
	case is(err, rpctypes.ErrNoSpace): // it has been applied, or never will be: see class
		j.open = true
		if unknown := j.find(ctx, 0); unknown != nil {
			return unknown
		}
		return failed("join line "+j.line, j.d.explain(err))
	case classify(err) != passing:
		return failed("join line "+j.line, j.d.explain(err))
	}
	j.d.log.Info("etcd: the outcome of a join is open", "line", j.line, "err", err)
	return j.settle(ctx)
}

// settle finds out whether a transaction whose reply was lost was applied, after making sure that it no longer can be. If
// another join has moved the epoch since, it may have done so while an earlier place still had this key. So settle reads at
// a revision no older than the last one that the service told us: by then that place had gone.
func (j *joining) settle(ctx context.Context) error {
	j.open = true
	if err := j.moveEpoch(ctx, j.compared); err != nil {
		return err
	}
	return j.find(ctx, max(j.epoch.rev.Load(), j.told.Load()))
}

// find looks at revision rev, or 0 for now, for the node of a transaction that can no longer be applied.
func (j *joining) find(ctx context.Context, rev int64) error {
	answer, _, err := j.readAt(ctx, "look for the node", rev, func(opts ...clientv3.OpOption) []clientv3.Op {
		return []clientv3.Op{clientv3.OpGet(j.key, opts...)}
	})
	if err != nil {
		return err
	}
	if kvs := answer[0].GetResponseRange().GetKvs(); len(kvs) > 0 {
		if err := j.adopt(ctx, kvs[0]); err != nil {
			return err
		}
	}
	j.open = false
	return nil
}

// adopt takes what stands at the key for this join's node, if that is surely what it is. A node that has our lease but says
// something else may be ours, written to by somebody, or may never have been ours. One that is older than the join was an
// earlier place's: a backup has brought it back, with its token. Both are taken away, so that nobody waits for them. A node
// without our lease is somebody else's, and stays; this join then takes another key, and that one is never used again.
func (j *joining) adopt(ctx context.Context, kv *mvccpb.KeyValue) error {
	switch {
	case kv.GetLease() != int64(j.lease):
		j.takeNumber(j.node.Kind)
	case string(kv.GetValue()) != j.value, kv.GetCreateRevision() <= j.since:
		stray := departure{key: j.key, created: kv.GetCreateRevision()}
		return j.d.retry(ctx, "take away what is not of this join", func(ctx context.Context) error { return j.leaving.try(ctx, stray) })
	default:
		j.born(kv.GetCreateRevision())
		j.modified = kv.GetModRevision()
	}
	return nil
}

// made completes a join that put the node at revision rev, using what the transaction read before it.
func (j *joining) made(rev int64, answers []*pb.ResponseOp, era int) ([]driver.Node, error) {
	j.born(rev)
	read := j.d.keys.see(j.view, answers)
	g, err := j.complete(j.life.Context(), j.view, read, rev, rev-1)
	if err != nil {
		return nil, err
	}
	j.last = j.sight.Depth() > 1 && !read.short // then nothing was read after the transaction
	j.remember(g, era)
	return g.nodes, nil
}

func (j *joining) born(rev int64) {
	j.created, j.modified = rev, rev
	j.node.ID, j.node.Token = nodeID(j.key, rev), driver.Token(rev)
}

// warnOfDeaf says once that others are in line who do not wait for us.
func (d *service) warnOfDeaf(ahead []driver.Node) {
	for _, n := range ahead {
		if d.keys.isDeaf(n) {
			d.deaf.Do(func() {
				d.log.Warn("etcd: another tool's name for this line ends with a slash: it does not see these contenders, so both may hold: "+
					"use WithTrailingSlash", "line", n.Line, "key", n.ID)
			})
			return
		}
	}
}
