package etcd

import (
	"bytes"
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// memo is the key of a line's memo. It has no lease, and it is within no line's prefix, since no line's name begins with a slash.
func (l layout) memo(line string) string {
	if l.names == Stock {
		return l.root + "/turnwise/memo/" + line
	}
	return l.root + "/memo/" + line
}

// Remember writes the memo, in one transaction that asks whether the node stands, and whether nobody has written the memo since:
// a try that had no answer, and is applied when a later memo has been written, must undo nothing.
func (p *place) Remember(ctx context.Context, memo []byte) error {
	ctx, unbind := p.life.Bind(ctx)
	defer unbind()
	key := p.d.keys.memo(p.line)
	write := clientv3.OpPut(key, string(memo))
	switch {
	case memo == nil && p.memoOpen: // what is still on its way must find something newer than itself; it goes with the session
		write = clientv3.OpPut(key, "", clientv3.WithLease(p.lease))
	case memo == nil:
		write = clientv3.OpDelete(key)
	}
	since := p.told.Load()
	gone := int64(0) // a revision at which the node was no longer there
	err := p.d.retry(ctx, "write the memo", func(ctx context.Context) error {
		for gone == 0 {
			answer, err := p.txn(ctx, []clientv3.Cmp{isIncarnation(p.key, p.created), clientv3.Compare(clientv3.ModRevision(key), "<", since+1)},
				[]clientv3.Op{write}, []clientv3.Op{clientv3.OpGet(p.key), clientv3.OpGet(key)})
			switch {
			case err != nil:
				p.memoOpen = p.memoOpen || classify(err) == passing
				return err
			case answer.Succeeded:
				return nil
			case incarnation(answer.Responses[0], p.created) == nil:
				gone = answer.Header.Revision
			case isMemo(answer.Responses[1], memo):
				return nil // an earlier try was applied after all
			}
			since = answer.Header.Revision
		}
		return nil
	})
	if err == nil && gone > 0 {
		err = p.removed(ctx, gone)
	}
	return p.life.Verdict(err)
}

// isMemo reports whether what was read is that memo.
func isMemo(read *pb.ResponseOp, memo []byte) bool {
	kvs := read.GetResponseRange().GetKvs()
	return len(kvs) > 0 && bytes.Equal(kvs[0].GetValue(), memo)
}

func (d *service) Memo(ctx context.Context, line string) ([]byte, error) {
	got, err := d.readLine(ctx, line, d.keys.memo(line))
	if err != nil || len(got.Kvs) == 0 || len(got.Kvs[0].Value) == 0 {
		return nil, err
	}
	return got.Kvs[0].Value, nil
}

// Forget takes away what it finds, so a try that is applied late takes away no memo that was written since.
func (d *service) Forget(ctx context.Context, line string) error {
	key := d.keys.memo(line)
	return d.retry(ctx, "forget the memo of line "+line, func(ctx context.Context) error {
		got, err := d.get(ctx, key, clientv3.WithKeysOnly())
		if err != nil || len(got.Kvs) == 0 {
			return err
		}
		_, err = d.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", got.Kvs[0].GetModRevision())},
			[]clientv3.Op{clientv3.OpDelete(key)}, nil)
		return err
	})
}
