package etcd

import (
	"context"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// sweep takes away contenders that are on the session's lease but belong to none of its places. Something between us and
// the service may send a join again after its place has been left, and a backup brings back nodes that had left: either
// would stand in its line for as long as the session lives. Nobody is given the number of such a key while it is taken away.
func (s *session) sweep(ctx context.Context) error {
	if !s.numbers.someReused() {
		return nil
	}
	var found *pb.LeaseTimeToLiveResponse
	err := s.d.retry(ctx, "look what is on the lease", func(ctx context.Context) (err error) {
		found, err = s.d.leases.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: int64(s.lease), Keys: true})
		return rpctypes.Error(err)
	})
	for _, key := range found.GetKeys() {
		number, ok := s.d.keys.numberOf(string(key), s.lease)
		if err != nil || !ok || !s.numbers.keep(number, string(key)) {
			continue
		}
		err = s.takeStray(ctx, string(key))
		s.numbers.keepNone()
	}
	return err
}

// takeStray takes a key away if it is there now: the list of what is on the lease may come from a former leader.
func (s *session) takeStray(ctx context.Context, key string) error {
	return s.d.retry(ctx, "take away what no place has", func(ctx context.Context) error {
		got, err := s.d.get(ctx, key, clientv3.WithKeysOnly())
		if err != nil || len(got.Kvs) == 0 {
			return err
		}
		s.d.log.Warn("etcd: a node of the session that it does not know of, taking it away", "key", key)
		return s.leaving.try(ctx, departure{key: key, created: got.Kvs[0].GetCreateRevision()})
	})
}

// numberOf returns the number in a contender's key, if the contender has that lease.
func (l layout) numberOf(key string, lease clientv3.LeaseID) (int64, bool) {
	if _, ok := l.lineOf(&mvccpb.KeyValue{Key: []byte(key), Lease: int64(lease)}); !ok {
		return 0, false
	}
	own, ok := strings.CutPrefix(key[strings.LastIndexByte(key, '/')+1:], leaseHex(lease)+"-")
	number, _, _ := strings.Cut(own, "-")
	if !ok || !isNumber(number) {
		return 0, false
	}
	return parseNumber(number), true
}
