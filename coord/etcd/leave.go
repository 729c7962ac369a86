package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
)

func (s *session) Leave(ctx context.Context, me driver.Node, held bool) error {
	own, err := s.stand(&me)
	if err != nil {
		return err
	}
	mark := ""
	if held && !own.first {
		mark = s.d.names.left(s.lease)
	}
	bound, unbind := s.bind(ctx)
	defer unbind()
	err = s.take(bound, own.node.ID, mark)
	if err == nil || s.life.Err() != nil {
		return s.verdict(err)
	}
	s.background(func() { s.take(s.life, own.node.ID, mark) })
	return err
}

// take removes one incarnation of a key, and with a mark says in the same transaction that it left as the holder: at
// the revision of the deletion, mark holds which it was. It may be sent as often as one likes.
func (s *session) take(ctx context.Context, id, mark string) error {
	s.forget(id)
	key, created, _ := parseID(id)
	me := departure{key: key, created: created}
	err := s.d.ask(ctx, "leave", func(ctx context.Context) error {
		if mark == "" {
			return s.leaving.try(ctx, me)
		}
		_, err := s.d.kv.Txn(ctx).If(me.stands()).Then(clientv3.OpDelete(key),
			clientv3.OpPut(mark, leftValue(created), clientv3.WithLease(s.lease))).Commit()
		switch {
		case is(err, rpctypes.ErrNoSpace):
			mark = "" // a deletion by itself is still allowed
			return s.leaving.try(ctx, me)
		case is(err, rpctypes.ErrLeaseNotFound):
			s.end(errLeaseGone)
		}
		return err
	})
	if err == nil {
		s.numbers.give(key, created)
	}
	return err
}
