package etcd

import (
	"bytes"
	"context"
	"math/rand/v2"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
)

// First reads, and listens to whatever can change who is first: the first node itself, since nobody joins ahead of it, or
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
	v.deafFor = requestTimeout // a read then says why there is no stream
	for {
		if _, err := v.next(ctx, pollEvery/2+rand.N(pollEvery)); err != nil {
			return driver.Node{}, err
		}
		if n, rev, err = d.first(ctx, line); err != nil || !same(n, *seen) {
			return n, err
		}
		v.since = min(v.since, rev) // the service may have gone back
		v.caughtUp(rev)
	}
}

// same leaves out what never changes by itself.
func same(a, b driver.Node) bool {
	return a.ID == b.ID && a.Kind == b.Kind && bytes.Equal(a.Data, b.Data)
}

// first reads the first node, and returns at which revision it did. It gives up after a while, so that those who watch
// learn that what they were told may be stale.
func (d *service) first(ctx context.Context, line string) (driver.Node, int64, error) {
	try, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	n, rev, err := d.tryFirst(try, line)
	if err != nil && ctx.Err() != nil {
		err = failed("read line "+line, unanswered(ctx, nil))
	}
	return n, rev, err
}

func (d *service) tryFirst(ctx context.Context, line string) (driver.Node, int64, error) {
	for {
		got, err := d.readLine(ctx, line, d.keys.line(line), clientv3.WithPrefix(),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(1))
		if err != nil {
			return driver.Node{}, 0, err
		}
		rev := got.Header.Revision
		if len(got.Kvs) == 0 {
			return driver.Node{}, rev, nil
		}
		if n, ok := d.keys.node(line, got.Kvs[0]); ok {
			d.keys.decodeValue(&n, got.Kvs[0].Value)
			return n, rev, nil
		}
		// The line begins with something that is no contender.
		var first driver.Node
		rev, err = d.walk(ctx, line, func(kv *mvccpb.KeyValue) {
			if n, ok := d.keys.node(line, kv); ok && (first.ID == "" || n.Token < first.Token) {
				first = n
			}
		}, clientv3.WithKeysOnly())
		if err != nil || first.ID == "" {
			return driver.Node{}, rev, err
		}
		got, err = d.readLine(ctx, line, keyOf(&first))
		if err != nil {
			return driver.Node{}, 0, err
		}
		if len(got.Kvs) > 0 && got.Kvs[0].CreateRevision == int64(first.Token) {
			d.keys.decodeValue(&first, got.Kvs[0].Value)
			return first, got.Header.Revision, nil
		}
		// That node has left meanwhile.
	}
}
