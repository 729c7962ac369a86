package etcd

import (
	"context"
	"errors"
	"slices"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// alone is how many leave by a transaction each, at a time.
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

// next sends those who wait, in the place of a transaction that has its answer.
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
	if !d.s.background(func() {
		err := d.s.d.once(d.s.life, func(ctx context.Context) error { return d.commit(ctx, many...) })
		if err != nil && judge(err) != passing {
			err = errTogether
		}
		answer(err)
	}) {
		answer(d.s.life.Err())
	}
}

// commit takes each key away if it is the incarnation that is meant: a late deletion by key alone could remove a newer
// node (etcd #22082).
func (d *departures) commit(ctx context.Context, who ...departure) error {
	txn := d.s.d.kv.Txn(ctx)
	if len(who) == 1 {
		txn = txn.If(who[0].stands()).Then(clientv3.OpDelete(who[0].key))
	} else {
		var each []clientv3.Op
		for _, w := range who {
			each = append(each, clientv3.OpTxn([]clientv3.Cmp{w.stands()}, []clientv3.Op{clientv3.OpDelete(w.key)}, nil))
		}
		txn = txn.Then(each...)
	}
	_, err := txn.Commit()
	return err
}

func (w departure) stands() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(w.key), "=", w.created)
}
