package etcd

import (
	"context"
	"fmt"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
)

// joining is one Join. It runs on the session's life, not on the caller's context: a request that was cancelled half
// way has an open outcome, and to settle that costs more than to wait for the reply and take the node away.
type joining struct {
	s     *session
	entry driver.Entry
	view  view
	key   string
	value string

	// decided is set by the first of the two: the caller, when it goes without a result, and the one who has the result.
	decided atomic.Bool
	result  chan joined
}

type joined struct {
	me    driver.Node
	ahead []driver.Node
	err   error
	open  bool // it may yet be applied
}

func (s *session) Join(ctx context.Context, e driver.Entry) (driver.Node, []driver.Node, error) {
	if err := ctx.Err(); err != nil {
		return driver.Node{}, nil, err
	}
	key := s.numbers.take(func(n int64) string { return s.d.names.contender(e.Line, e.Kind, s.lease, n) })
	j := &joining{
		s:      s,
		entry:  e,
		view:   view{e.Line, e.Sight},
		key:    key,
		value:  s.d.names.encodeValue(e.Kind, e.Kind, e.Owner, e.Data),
		result: make(chan joined, 1),
	}
	if !s.background(j.run) {
		return driver.Node{}, nil, s.over()
	}
	var err error
	select {
	case r := <-j.result:
		return r.me, r.ahead, r.err
	case <-s.life.Done():
		err = s.over()
	case <-ctx.Done():
		err = unanswered(ctx, "join", nil)
	}
	if j.decided.CompareAndSwap(false, true) {
		return driver.Node{}, nil, err
	}
	r := <-j.result
	return r.me, r.ahead, r.err
}

// abandoned reports whether the caller has gone.
func (j *joining) abandoned() bool { return j.decided.Load() }

// finish hands the result to the caller; false if the caller has gone.
func (j *joining) finish(r joined) bool {
	if !j.decided.CompareAndSwap(false, true) {
		return false
	}
	j.result <- r
	return true
}

func (j *joining) fail(err error) { j.finish(joined{err: err}) }

func (j *joining) run() {
	select {
	case j.s.joins <- struct{}{}:
	case <-j.s.life.Done():
		return
	}
	r := j.attempt()
	<-j.s.joins

	switch {
	case r.err == nil && j.entry.Try && len(r.ahead) > 0:
		j.s.take(j.s.life, r.me.ID, "")
		j.fail(driver.ErrBusy)
	case r.err == nil:
		if !j.finish(r) {
			j.s.take(j.s.life, r.me.ID, "")
		}
	default:
		if r.me.ID != "" {
			j.s.take(j.s.life, r.me.ID, "")
		} else if !r.open {
			j.s.numbers.give(j.key, 0)
		}
		j.fail(r.err)
	}
}

// attempt tries until the outcome is known. With an error, a node that is named was made and has to go.
func (j *joining) attempt() joined {
	s := j.s
	try := j.entry.Try
	tokens := 0
	for !j.abandoned() {
		epoch := s.epoch.rev.Load()
		answer, err := j.send(epoch, try)
		switch {
		case err == nil && answer.Succeeded:
			return j.made(answer.Header.Revision, answer.Responses[:len(answer.Responses)-1])
		case err == nil:
			busy, clear, err := j.refused(answer, epoch, try)
			switch {
			case err != nil:
				return joined{err: err}
			case busy:
				return joined{err: driver.ErrBusy}
			case clear:
				try = false
			}
		case is(err, rpctypes.ErrInvalidAuthToken) && tokens < 3:
			tokens++
		case is(err, rpctypes.ErrLeaseNotFound):
			if err := s.confirm(s.life); err != nil {
				return joined{err: s.verdict(err)}
			}
		case is(err, rpctypes.ErrTooManyRequests): // not even proposed
			if sleep(s.life, lastPause/4) != nil {
				return joined{err: s.over()}
			}
		case judge(err) != passing:
			return joined{err: s.d.explain("join line "+j.entry.Line, err)}
		default:
			s.d.log.Info("etcd: the outcome of a join is open", "line", j.entry.Line, "err", err)
			if rev, err := j.settle(epoch); err != nil {
				return joined{err: s.verdict(err), open: true}
			} else if rev > 0 {
				return j.found(rev)
			}
		}
	}
	return joined{err: context.Canceled}
}

// send is the transaction that joins. A range before the put shows exactly those ahead. With try it puts only
// if nobody is in sight.
func (j *joining) send(epoch int64, try bool) (*clientv3.TxnResponse, error) {
	s := j.s
	names := s.d.names
	key := names.epoch(s.lease)
	reads := names.reads(j.view)
	ifs := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", epoch)}
	instead := []clientv3.Op{clientv3.OpGet(key, clientv3.WithKeysOnly())}
	if try {
		for _, r := range names.ranges(j.view) {
			ifs = append(ifs, clientv3.Compare(clientv3.CreateRevision(r.from).WithRange(r.to), "=", 0))
		}
		instead = append(instead, reads...)
	}
	put := clientv3.OpPut(j.key, j.value, clientv3.WithLease(s.lease))
	var answer *clientv3.TxnResponse
	err := s.d.once(s.life, func(ctx context.Context) (err error) {
		answer, err = s.d.kv.Txn(ctx).If(ifs...).Then(append(reads, put)...).Else(instead...).Commit()
		return err
	})
	return answer, err
}

// refused finds out why the transaction put nothing: another epoch, which means to try again, or somebody is there.
// clear says that what is there is in nobody's way, but cannot be left out of a comparison.
func (j *joining) refused(answer *clientv3.TxnResponse, epoch int64, try bool) (busy, clear bool, err error) {
	s := j.s
	if err := s.goesOn(answer.Header.Revision, epoch); err != nil {
		return false, false, s.verdict(err)
	}
	kvs := answer.Responses[0].GetResponseRange().GetKvs()
	if len(kvs) == 0 { // gone with the lease, or removed by somebody
		return false, false, s.verdict(s.check(s.life, answer.Header.Revision))
	}
	if now := kvs[0].GetModRevision(); now != epoch {
		s.epoch.learn(now)
		return false, false, nil
	}
	if !try {
		return false, false, fmt.Errorf("etcd: join line %s: the service refused for no reason", j.entry.Line)
	}
	g := s.d.names.see(j.view, answer.Responses[1:])
	g, err = s.settle(s.life, j.view, g, answer.Header.Revision, answer.Header.Revision)
	if err != nil {
		return false, false, s.verdict(err)
	}
	return len(g.nodes) > 0, len(g.nodes) == 0, nil
}

// settle finds out whether a transaction whose reply was lost was applied, once it can no longer be. It returns the
// node's create revision, 0 if there is none.
func (j *joining) settle(epoch int64) (int64, error) {
	s := j.s
	if err := s.moveEpoch(s.life, epoch); err != nil {
		return 0, err
	}
	ops := func(opts ...clientv3.OpOption) []clientv3.Op {
		return []clientv3.Op{clientv3.OpGet(j.key, append(opts, clientv3.WithKeysOnly())...)}
	}
	answer, _, err := s.readAt(s.life, "look for the node", s.epoch.rev.Load(), ops)
	if err != nil {
		return 0, err
	}
	if kvs := answer[0].GetResponseRange().GetKvs(); len(kvs) > 0 {
		return kvs[0].GetCreateRevision(), nil
	}
	return 0, nil
}

// made completes a join that put the node at revision rev, with what the transaction read before.
func (j *joining) made(rev int64, answers []*pb.ResponseOp) joined {
	own := j.standing(rev)
	g, err := j.s.settle(j.s.life, j.view, j.s.d.names.see(j.view, answers), rev, rev-1)
	own.first = g.all == 0 && len(j.view.sight.Ignore) == 0
	own.remember(j.view, g)
	r := j.done(own, g.nodes, err)
	r.me.Last = j.view.sight.All // then nothing was read after the transaction
	return r
}

// found completes a join that turned out to have put the node at revision rev.
func (j *joining) found(rev int64) joined {
	own := j.standing(rev)
	ahead, stands, _, err := j.s.look(j.s.life, j.view, own, rev)
	if err == nil && !stands {
		err = driver.ErrRemoved
	}
	return j.done(own, ahead, err)
}

func (j *joining) standing(rev int64) *standing {
	j.s.numbers.made(j.key, rev)
	return &standing{
		key:      j.key,
		created:  rev,
		modified: rev,
		changing: make(chan struct{}, 1),
		node: driver.Node{
			Line:  j.entry.Line,
			ID:    nodeID(j.key, rev),
			Kind:  j.entry.Kind,
			Token: driver.Token(rev),
			Owner: j.entry.Owner,
			Data:  j.entry.Data,
		},
	}
}

func (j *joining) done(own *standing, ahead []driver.Node, err error) joined {
	j.s.joinedAs(own)
	return joined{me: own.node, ahead: ahead, err: j.s.verdict(err)}
}
