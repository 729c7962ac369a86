package etcd

import (
	"context"
	"errors"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Requests go through here, so that an answer that lacks what was asked for is treated like a lost one: it may come from
// something other than etcd, or from somebody in between.
var errNonsense = errors.New("the answer makes no sense")

func (d *service) txn(ctx context.Context, ifs []clientv3.Cmp, then, instead []clientv3.Op) (*clientv3.TxnResponse, error) {
	answer, err := d.kv.Txn(ctx).If(ifs...).Then(then...).Else(instead...).Commit()
	if err != nil {
		return nil, err
	}
	asked := instead
	if answer.Succeeded {
		asked = then
	}
	if answer.Header.GetRevision() <= 0 || !answer.Succeeded && len(ifs) == 0 || len(answer.Responses) != len(asked) {
		return nil, errNonsense
	}
	for i, op := range asked {
		found := answer.Responses[i].GetResponseRange()
		if op.IsGet() && (found == nil || !sane(answer.Header, found.GetKvs())) {
			return nil, errNonsense
		}
	}
	return answer, nil
}

func (d *service) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	got, err := d.kv.Get(ctx, key, opts...)
	if err == nil && !sane(got.Header, got.Kvs) {
		return nil, errNonsense
	}
	return got, err
}

func (d *service) put(ctx context.Context, key, value string, opts ...clientv3.OpOption) (rev int64, err error) {
	done, err := d.kv.Put(ctx, key, value, opts...)
	if err != nil {
		return 0, err
	}
	if rev = done.Header.GetRevision(); rev <= 0 {
		return 0, errNonsense
	}
	return rev, nil
}

// sane reports whether such keys can exist at the revision of the answer.
func sane(header *pb.ResponseHeader, kvs []*mvccpb.KeyValue) bool {
	return header.GetRevision() > 0 && !slices.ContainsFunc(kvs, func(kv *mvccpb.KeyValue) bool {
		return kv.GetCreateRevision() <= 0 || kv.GetModRevision() < kv.GetCreateRevision() || kv.GetModRevision() > header.GetRevision()
	})
}
