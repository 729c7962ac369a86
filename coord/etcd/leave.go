package etcd

import (
	"context"
	"errors"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

func (p *place) Leave(ctx context.Context, held bool) error {
	ctx, unbind := p.life.Bind(ctx)
	defer unbind()
	mark := ""
	if held && !p.first {
		mark = p.d.keys.left(p.lease)
	}
	return p.untilGone(ctx, func(ctx context.Context) error { return p.depart(ctx, mark) })
}

// untilGone goes on in the background where it must. A departure is tried until it has an answer, so if it fails it was
// refused.
func (s *session) untilGone(ctx context.Context, depart func(context.Context) error) error {
	return driverkit.UntilGone(ctx, s.life, depart, func(error) bool { return false })
}

// depart removes the incarnation of the key that is ours, and with a mark says in the same transaction that it left as the
// holder: at the revision of the deletion, the key mark holds which it was. It may be sent as often as one likes.
func (p *place) depart(ctx context.Context, mark string) error {
	me := departure{key: p.key, created: p.created}
	err := p.d.retry(ctx, "leave", func(ctx context.Context) error {
		if mark == "" {
			return p.leaving.try(ctx, me)
		}
		_, err := p.d.kv.Txn(ctx).If(isIncarnation(p.key, p.created)).Then(clientv3.OpDelete(p.key),
			clientv3.OpPut(mark, leftValue(p.created), clientv3.WithLease(p.lease))).Commit()
		if is(err, rpctypes.ErrNoSpace) {
			mark = "" // a deletion by itself is still allowed
			return p.leaving.try(ctx, me)
		}
		p.noticeLoss(err)
		return err
	})
	if err == nil {
		p.free.Do(func() { p.numbers.giveBack(p.number) })
	}
	return err
}

const (
	// alone is how many at a time leave by a transaction each.
	alone = 8

	// together is how many of all others leave by one. etcd takes 128 operations, unless it is told otherwise.
	together = 64
)

// departures takes keys away. When a crowd leaves, as readers do or the holders of permits, most of them share their
// transactions, so that etcd need not agree on each.
type departures struct {
	s *session

	mu      sync.Mutex
	sent    int // how many transactions are on their way
	waiting []departure
}

type departure struct {
	key     string
	created int64
	done    chan error
}

// errTogether: what was refused to many has to be asked for by each.
var errTogether = errors.New("refused to one of many")

// try is one try to take a key away. It may go on when ctx has ended.
func (d *departures) try(ctx context.Context, me departure) error {
	d.mu.Lock()
	if d.sent < alone {
		d.sent++
		d.mu.Unlock()
		err := d.commit(ctx, me)
		d.next()
		return err
	}
	me.done = make(chan error, 1)
	d.waiting = append(d.waiting, me)
	d.mu.Unlock()
	select {
	case err := <-me.done:
		if err == errTogether {
			err = d.commit(ctx, me)
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// next sends those who wait, in place of a transaction that has its answer.
func (d *departures) next() {
	d.mu.Lock()
	n := min(len(d.waiting), together)
	many := slices.Clone(d.waiting[:n])
	d.waiting = slices.Delete(d.waiting, 0, n)
	if n == 0 {
		d.sent--
	}
	d.mu.Unlock()
	if n == 0 {
		return
	}
	answer := func(err error) {
		for _, each := range many {
			each.done <- err
		}
		d.next()
	}
	life := d.s.life
	if !life.Go(func() {
		err := d.s.d.once(life.Context(), func(ctx context.Context) error { return d.commit(ctx, many...) })
		if err != nil && classify(err) != passing {
			err = errTogether
		}
		answer(err)
	}) {
		answer(life.Why())
	}
}

// commit takes each key away if it is the incarnation that is meant: a late deletion by key alone could remove a newer
// node (etcd #22082).
func (d *departures) commit(ctx context.Context, who ...departure) error {
	txn := d.s.d.kv.Txn(ctx)
	if len(who) == 1 {
		txn = txn.If(isIncarnation(who[0].key, who[0].created)).Then(clientv3.OpDelete(who[0].key))
	} else {
		var each []clientv3.Op
		for _, w := range who {
			each = append(each, clientv3.OpTxn([]clientv3.Cmp{isIncarnation(w.key, w.created)}, []clientv3.Op{clientv3.OpDelete(w.key)}, nil))
		}
		txn = txn.Then(each...)
	}
	_, err := txn.Commit()
	return err
}
