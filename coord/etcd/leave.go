package etcd

import (
	"context"
	"errors"
	"slices"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// Leave leaves no mark: those behind find out by themselves whether it is their turn, see clears.
func (p *place) Leave(ctx context.Context, _ bool) error {
	if p.wasRemoved.Load() {
		return p.life.Why()
	}
	ctx, unbind := p.life.Bind(ctx)
	defer unbind()
	return p.untilGone(ctx, p.depart)
}

// untilGone goes on in the background if it must. A departure is retried until it has an answer, so one that fails was
// refused. That is logged, since the caller who gave up may not have waited for it.
func (s *session) untilGone(ctx context.Context, depart func(context.Context) error) error {
	var told sync.Once
	return driverkit.UntilGone(ctx, s.life, func(ctx context.Context) error {
		err := depart(ctx)
		if errors.Is(err, driver.ErrDenied) {
			told.Do(func() {
				s.d.log.Warn("etcd: a node stays until it may be taken away or the session ends", "lease", leaseHex(s.lease), "err", err)
			})
		}
		return err
	}, func(error) bool { return false })
}

// depart removes our incarnation of the key. It can safely be sent any number of times.
func (p *place) depart(ctx context.Context) error {
	me := departure{key: p.key, created: p.created}
	err := p.d.retry(ctx, "leave", func(ctx context.Context) error { return p.leaving.try(ctx, me) })
	if err == nil {
		p.free.Do(p.stoodDown)
	}
	return err
}

// mostAlone is how many at a time leave in transactions of their own.
const mostAlone = 8

// departures takes keys away. When a crowd leaves, such as readers or the holders of permits, most of them share
// transactions, so that etcd need not agree on each departure.
type departures struct {
	s *session

	mu      sync.Mutex
	sent    int // how many transactions are under way
	waiting []departure
}

type departure struct {
	key     string
	created int64
	done    chan error
}

// errTogether says that a shared transaction was refused, so each departure must ask by itself.
var errTogether = errors.New("refused to one of many")

// try tries once to take a key away, which may go on after ctx has ended.
func (d *departures) try(ctx context.Context, me departure) error {
	d.mu.Lock()
	if d.sent < mostAlone {
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

// next sends waiting departures in place of a transaction that has been answered.
func (d *departures) next() {
	d.mu.Lock()
	n := min(len(d.waiting), d.s.d.bundle.size())
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
		if is(err, rpctypes.ErrTooManyOps) {
			d.s.d.bundle.halve(len(many))
		}
		if err != nil && classify(err) != passing {
			err = errTogether
		}
		answer(err)
	}) {
		answer(life.Why())
	}
}

// commit takes each key away if it is still the same incarnation: a late deletion by key alone could remove a newer node
// (etcd #22082).
func (d *departures) commit(ctx context.Context, who ...departure) error {
	var ifs []clientv3.Cmp
	var ops []clientv3.Op
	if len(who) == 1 {
		ifs = []clientv3.Cmp{isIncarnation(who[0].key, who[0].created)}
		ops = []clientv3.Op{clientv3.OpDelete(who[0].key)}
	} else {
		for _, w := range who {
			ops = append(ops, clientv3.OpTxn([]clientv3.Cmp{isIncarnation(w.key, w.created)}, []clientv3.Op{clientv3.OpDelete(w.key)}, nil))
		}
	}
	_, err := d.s.txn(ctx, ifs, ops, nil)
	return err
}
