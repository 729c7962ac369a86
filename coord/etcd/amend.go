package etcd

import (
	"context"
	"errors"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
)

// Amend writes the contender's value. The key stays, and with it the create revision: the place. So the kind in the
// key is that of the join, and the value tells the present one. A contender can only come to ask for less: who looks
// for a kind alone looks at the keys that have it.
func (s *session) Amend(ctx context.Context, me driver.Node) (driver.Node, error) {
	own, err := s.stand(&me)
	if err != nil {
		return driver.Node{}, err
	}
	value, err := s.amendment(own, me)
	if err != nil {
		return driver.Node{}, err
	}
	ctx, unbind := s.bind(ctx)
	defer unbind()
	select {
	case own.changing <- struct{}{}:
		defer func() { <-own.changing }()
	case <-ctx.Done():
		return driver.Node{}, s.verdict(unanswered(ctx, "amend", nil))
	}
	gone := int64(0) // the revision at which it was not there any more
	err = s.d.ask(ctx, "amend", func(ctx context.Context) error {
		gone, err = s.write(ctx, own, value)
		return err
	})
	switch {
	case err != nil:
		return driver.Node{}, s.verdict(err)
	case gone > 0:
		return driver.Node{}, s.removed(ctx, gone)
	}
	me.ID, me.Token = own.node.ID, driver.Token(own.created)
	return me, nil
}

var errStockKind = errors.New("etcd: with stock names a lock cannot become anything else: other tools' keys have no room for it; use isolated names")

func (s *session) amendment(own *standing, me driver.Node) (string, error) {
	names := s.d.names
	at, _ := names.parse(strings.TrimPrefix(own.key, names.line(me.Line)))
	if names.names == Stock && at.kind == stockKind && me.Kind != stockKind {
		return "", errStockKind
	}
	return names.encodeValue(at.kind, me.Kind, me.Owner, me.Data), nil
}

// write puts the value. It compares the revision of the last change too, so that an earlier try which is applied late
// undoes nothing.
func (s *session) write(ctx context.Context, own *standing, value string) (gone int64, err error) {
	for {
		answer, err := s.d.kv.Txn(ctx).If(
			clientv3.Compare(clientv3.CreateRevision(own.key), "=", own.created),
			clientv3.Compare(clientv3.ModRevision(own.key), "=", own.modified),
		).Then(
			clientv3.OpPut(own.key, value, clientv3.WithLease(s.lease)),
		).Else(
			clientv3.OpGet(own.key),
		).Commit()
		switch {
		case is(err, rpctypes.ErrLeaseNotFound):
			s.end(errLeaseGone)
			return 0, err
		case err != nil:
			return 0, err
		case answer.Succeeded:
			own.modified = answer.Header.Revision
			return 0, nil
		}
		kv := incarnation(answer.Responses[0], own.node.ID)
		if kv == nil {
			return answer.Header.Revision, nil
		}
		own.modified = kv.GetModRevision()
		if string(kv.GetValue()) == value {
			return 0, nil // an earlier try was applied after all
		}
	}
}

// removed is the error of one whose node is not there at revision rev: it was removed, or the session has ended.
func (s *session) removed(ctx context.Context, rev int64) error {
	if err := s.check(ctx, rev); err != nil {
		return s.verdict(err)
	}
	if s.life.Err() != nil {
		return s.over()
	}
	return driver.ErrRemoved
}
