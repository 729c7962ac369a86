package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
)

// Amend writes the contender's value. The key stays, and with it the create revision, which is the place. So the key has
// the kind of the join, and the value the present one. A contender can only change to a kind that asks for less: a look for
// a single kind reads only the keys that have it.
func (p *place) Amend(ctx context.Context, kind string, data []byte) error {
	me := p.Node()
	me.Kind, me.Data = kind, data
	value, err := p.amended(&me)
	if err != nil {
		return err
	}
	ctx, unbind := p.life.Bind(ctx)
	defer unbind()
	gone := int64(0) // a revision at which the node was no longer there
	open := false    // nobody knows whether a try was applied, or will be
	err = p.d.retry(ctx, "amend", func(ctx context.Context) error {
		gone, err = p.write(ctx, value)
		open = open || err != nil && (classify(err) == passing || isTooLarge(err))
		return err
	})
	if is(err, rpctypes.ErrNoSpace) {
		made, at, unknown := p.wasWritten(ctx, value)
		if gone, open = at, open || unknown != nil; made || gone > 0 {
			err = nil
		}
	}
	if err == nil && gone > 0 {
		err = p.removed(ctx, gone)
	}
	if err != nil && !open && gone == 0 {
		err = fmt.Errorf("%w: %w", err, driver.ErrUnchanged)
	}
	if err != nil {
		return p.life.Verdict(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.node = me
	return nil
}

var errStockKind = errors.New("etcd: with stock names a lock cannot become anything else: other tools' keys have no room for it; use isolated names")

// amended is the value that makes the node look like me.
func (p *place) amended(me *driver.Node) (string, error) {
	keys := p.d.keys
	from, _ := keys.parse(strings.TrimPrefix(p.key, keys.line(p.line)))
	if keys.names == Stock && from.kind == stockKind && me.Kind != stockKind {
		return "", fmt.Errorf("%w: %w", errStockKind, driver.ErrUnchanged)
	}
	return keys.encodeValue(from.kind, me), nil
}

// write puts the value. It also compares the revision of the last change, so that an earlier try that is applied late
// undoes nothing.
func (p *place) write(ctx context.Context, value string) (gone int64, err error) {
	for {
		answer, err := p.txn(ctx, []clientv3.Cmp{
			isIncarnation(p.key, p.created),
			clientv3.Compare(clientv3.ModRevision(p.key), "=", p.modified),
		}, []clientv3.Op{
			clientv3.OpPut(p.key, value, clientv3.WithLease(p.lease)),
		}, []clientv3.Op{
			clientv3.OpGet(p.key),
		})
		switch {
		case err != nil:
			p.noticeLoss(err)
			return 0, err
		case answer.Succeeded:
			p.modified = answer.Header.Revision
			return 0, nil
		}
		if made, gone := p.stands(answer, value); made || gone > 0 { // an earlier try was applied after all, or never will be
			return gone, nil
		}
	}
}

// stands takes in what was read at the key, and reports whether that is the value. If the node was no longer there, it returns
// the revision at which it was not.
func (p *place) stands(answer *clientv3.TxnResponse, value string) (made bool, gone int64) {
	kv := incarnation(answer.Responses[0], p.created)
	if kv == nil {
		return false, answer.Header.Revision
	}
	p.modified = kv.GetModRevision()
	return string(kv.GetValue()) == value, 0
}

// wasWritten settles whether a service that said that it had no space has put the value: see class. It also returns the
// revision at which the node was no longer there, if it has gone.
func (p *place) wasWritten(ctx context.Context, value string) (made bool, gone int64, err error) {
	err = p.d.retry(ctx, "look what was amended", func(ctx context.Context) error {
		answer, err := p.txn(ctx, nil, []clientv3.Op{clientv3.OpGet(p.key)}, nil)
		if err == nil {
			made, gone = p.stands(answer, value)
		}
		return err
	})
	return made, gone, err
}
