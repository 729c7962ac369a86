package etcd

import (
	"context"
	"maps"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
)

func (d *service) Line(ctx context.Context, line string) ([]driver.Node, error) {
	var got *clientv3.GetResponse
	err := d.retry(ctx, "read line "+line, func(ctx context.Context) (err error) {
		got, err = d.kv.Get(ctx, d.keys.line(line), clientv3.WithPrefix())
		return err
	})
	if err != nil {
		return nil, err
	}
	var nodes []driver.Node
	for _, kv := range got.Kvs {
		if n, ok := d.keys.node(line, kv); ok {
			d.keys.decodeValue(&n, kv.Value)
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, byToken)
	return nodes, nil
}

// page is how many keys Lines reads at once. It skips the rest of a longer line.
const page = 500

func (d *service) Lines(ctx context.Context, prefix string) ([]string, error) {
	found := make(map[string]bool)
	from := d.keys.root + prefix
	end := clientv3.GetPrefixRangeEnd(from)
	if from == "" {
		from, end = "\x00", "\x00" // everything
	}
	opts := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(page)}
	if d.keys.names == Isolated {
		opts = append(opts, clientv3.WithKeysOnly()) // without the lease, from 3.7 on, which stock names need
	}
	for {
		var got *clientv3.GetResponse
		err := d.retry(ctx, "list the lines", func(ctx context.Context) (err error) {
			got, err = d.kv.Get(ctx, from, opts...)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, kv := range got.Kvs {
			if line, ok := d.keys.lineOf(kv); ok && strings.HasPrefix(line, prefix) {
				found[line] = true
			}
		}
		if !got.More {
			break
		}
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
		return driver.ErrRemoved // no such node was ever in that line
	}
	removed, tries := false, 0
	err := d.retry(ctx, "remove a node of line "+n.Line, func(ctx context.Context) error {
		tries++
		done, err := d.kv.Txn(ctx).
			If(isIncarnation(key, created)).
			Then(clientv3.OpDelete(key)).
			Commit()
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
