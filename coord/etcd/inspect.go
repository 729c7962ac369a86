package etcd

import (
	"context"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
)

func (d *service) Line(ctx context.Context, line string) ([]driver.Node, error) {
	nodes, _, err := d.readAll(ctx, line)
	return nodes, err
}

const (
	// A page of a walk has about pageBytes. How large the values are is known only on the way: anybody may keep large ones
	// below the name of a line.
	pageBytes         = 1 << 20
	fewKeys, manyKeys = 16, 1000
)

// readLine reads keys of a line.
func (d *service) readLine(ctx context.Context, line, key string, opts ...clientv3.OpOption) (got *clientv3.GetResponse, err error) {
	err = d.retry(ctx, "read line "+line, func(ctx context.Context) error {
		got, err = d.get(ctx, key, opts...)
		return err
	})
	return got, err
}

// walk visits all keys of a line, as they were at one revision, which it returns.
func (d *service) walk(ctx context.Context, line string, visit func(*mvccpb.KeyValue), opts ...clientv3.OpOption) (rev int64, err error) {
	from := d.keys.line(line)
	end := clientv3.GetPrefixRangeEnd(from)
	at, keys, bytes := int64(0), 0, 0
	for limit := fewKeys; ; limit = min(max(keys*pageBytes/(bytes+1), fewKeys), manyKeys) {
		got, err := d.readLine(ctx, line, from, append(opts, clientv3.WithRange(end), clientv3.WithLimit(int64(limit)), clientv3.WithRev(at))...)
		if is(err, rpctypes.ErrCompacted) && at > 0 {
			at = 0 // go on with the present state: whatever stands all the while is still seen
			continue
		}
		if err != nil {
			return 0, err
		}
		for _, kv := range got.Kvs {
			bytes += len(kv.Key) + len(kv.Value)
			visit(kv)
		}
		if rev == 0 {
			rev = got.Header.Revision
		}
		if !got.More || len(got.Kvs) == 0 {
			return rev, nil
		}
		at, keys = rev, keys+len(got.Kvs)
		from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
}

// page is how many keys Lines reads at once, or fewer where somebody has put large values. It skips the rest of a longer line.
const page = 500

func (d *service) Lines(ctx context.Context, prefix string) ([]string, error) {
	found := make(map[string]bool)
	from := d.keys.root + prefix
	end := clientv3.GetPrefixRangeEnd(from)
	if from == "" {
		from, end = "\x00", "\x00" // everything
	}
	opts := []clientv3.OpOption{clientv3.WithRange(end)}
	if d.keys.names == Isolated {
		opts = append(opts, clientv3.WithKeysOnly()) // from 3.7 on that leaves out the lease, which stock names need
	}
	for limit := page; ; {
		var got *clientv3.GetResponse
		err := d.retry(ctx, "list the lines", func(ctx context.Context) (err error) {
			got, err = d.get(ctx, from, append(opts, clientv3.WithLimit(int64(limit)))...)
			return err
		})
		if isTooLarge(err) && limit > 1 { // by what somebody keeps in one line, the others are not to be hidden
			limit = max(1, limit/8)
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, kv := range got.Kvs {
			if line, ok := d.keys.lineOf(kv); ok && strings.HasPrefix(line, prefix) {
				found[line] = true
			}
		}
		if !got.More || len(got.Kvs) == 0 {
			break
		}
		limit = min(2*limit, page)
		last := got.Kvs[len(got.Kvs)-1]
		from = string(last.Key) + "\x00"
		if line, ok := d.keys.lineOf(last); ok && d.keys.names == Isolated {
			from = clientv3.GetPrefixRangeEnd(d.keys.line(line))
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

func (d *service) Remove(ctx context.Context, n driver.Node) error {
	key, created, ok := d.keys.inLine(n.Line, n.ID)
	if !ok {
		return driver.ErrRemoved // that line never had such a node
	}
	removed, tries := false, 0
	err := d.retry(ctx, "remove a node of line "+n.Line, func(ctx context.Context) error {
		tries++
		done, err := d.txn(ctx, []clientv3.Cmp{isIncarnation(key, created)}, []clientv3.Op{clientv3.OpDelete(key)}, nil)
		if err == nil {
			removed = done.Succeeded
		}
		return err
	})
	if err != nil {
		return err
	}
	if !removed && tries == 1 {
		return driver.ErrRemoved
	}
	return nil // removed now, or perhaps by an earlier try
}
