package etcd

import (
	"bytes"
	"context"
	"math/rand/v2"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
)

// First reads, and listens for what can change who is first: the first node itself, since nobody joins ahead of it, or
// whatever is put into an empty line.
func (d *service) First(ctx context.Context, line string, seen *driver.Node) (driver.Node, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.life.Context(), func() { cancel(errClosed) })()

	n, rev, err := d.first(ctx, line)
	if err != nil || seen == nil || !same(n, *seen) {
		return n, err
	}
	what := span{d.keys.line(line), clientv3.GetPrefixRangeEnd(d.keys.line(line))}
	if key, _, ok := parseID(seen.ID); ok {
		what = span{key: key}
	}
	v := d.watches.vigil(what, rev)
	defer v.end()
	for {
		patience := pollEvery/2 + rand.N(pollEvery)
		if v.open == 0 {
			patience = requestTimeout // there is no stream to be had: read, which says why
		}
		if _, err := v.next(ctx, patience); err != nil {
			return driver.Node{}, err
		}
		if n, rev, err = d.first(ctx, line); err != nil || !same(n, *seen) {
			return n, err
		}
		v.caughtUp(rev)
	}
}

// same does not compare what never changes by itself.
func same(a, b driver.Node) bool {
	return a.ID == b.ID && a.Kind == b.Kind && bytes.Equal(a.Data, b.Data)
}

// first reads the first node, and returns at which revision. It gives up after a while: whoever watches wants to know
// that what they were told may be stale.
func (d *service) first(ctx context.Context, line string) (driver.Node, int64, error) {
	try, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for _, limit := range []int64{1, 0} {
		var got *clientv3.GetResponse
		err := d.retry(try, "read line "+line, func(ctx context.Context) (err error) {
			got, err = d.kv.Get(ctx, d.keys.line(line), clientv3.WithPrefix(),
				clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(limit))
			return err
		})
		if err != nil && ctx.Err() != nil {
			err = failed("read line "+line, unanswered(ctx, nil))
		}
		if err != nil {
			return driver.Node{}, 0, err
		}
		for _, kv := range got.Kvs {
			if n, ok := d.keys.node(line, kv); ok {
				d.keys.decodeValue(&n, kv.Value)
				return n, got.Header.Revision, nil
			}
		}
		if len(got.Kvs) == 0 || limit == 0 {
			return driver.Node{}, got.Header.Revision, nil
		}
	}
	panic("unreachable")
}
