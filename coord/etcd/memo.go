package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// memo is the key of a line's memo. It has no lease, and it is within no line's prefix, since no line's name begins with a slash.
func (l layout) memo(line string) string {
	if l.names == Stock {
		return l.root + "/turnwise/memo/" + line
	}
	return l.root + "/memo/" + line
}

// Remember writes the memo, in one transaction that asks whether the node stands.
func (p *place) Remember(ctx context.Context, memo []byte) error {
	ctx, unbind := p.life.Bind(ctx)
	defer unbind()
	key := p.d.keys.memo(p.line)
	write := clientv3.OpPut(key, string(memo))
	if memo == nil {
		write = clientv3.OpDelete(key)
	}
	gone := int64(0) // a revision at which the node was no longer there
	err := p.d.retry(ctx, "write the memo", func(ctx context.Context) error {
		answer, err := p.txn(ctx, []clientv3.Cmp{isIncarnation(p.key, p.created)}, []clientv3.Op{write}, nil)
		if err == nil && !answer.Succeeded {
			gone = answer.Header.Revision
		}
		return err
	})
	if err == nil && gone > 0 {
		err = p.removed(ctx, gone)
	}
	return p.life.Verdict(err)
}

func (d *service) Memo(ctx context.Context, line string) ([]byte, error) {
	got, err := d.readLine(ctx, line, d.keys.memo(line))
	if err != nil || len(got.Kvs) == 0 {
		return nil, err
	}
	return got.Kvs[0].Value, nil
}

func (d *service) Forget(ctx context.Context, line string) error {
	return d.retry(ctx, "forget the memo of line "+line, func(ctx context.Context) error {
		_, err := d.kv.Delete(ctx, d.keys.memo(line))
		return err
	})
}
