package etcd

import (
	"context"
	"math/rand/v2"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// First reads, and listens to whatever can change what it has read: the line or, if the first node alone is wanted, that node
// alone, since nobody joins ahead of it.
func (d *service) First(ctx context.Context, line string, most int, seen *driver.Look) (driver.Look, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.life.Context(), func() { cancel(errClosed) })()

	now, err := d.first(ctx, line, most)
	if err != nil || seen == nil || !now.IsOf(seen.Nodes) {
		return now, err
	}
	what := span{d.keys.line(line), clientv3.GetPrefixRangeEnd(d.keys.line(line))}
	if most == 1 && len(seen.Nodes) == 1 {
		if key, _, ok := parseID(seen.Nodes[0].ID); ok {
			what = span{key: key}
		}
	}
	v := d.watches.vigil(what, int64(now.At))
	defer v.end()
	v.deafFor = requestTimeout // a read then says why there is no stream
	for {
		if _, err := v.next(ctx, pollEvery/2+rand.N(pollEvery)); err != nil {
			return driver.Look{}, err
		}
		if now, err = d.first(ctx, line, most); err != nil || !now.IsOf(seen.Nodes) {
			return now, err
		}
		v.since = min(v.since, int64(now.At)) // the service may have gone back
		v.caughtUp(int64(now.At))
	}
}

// first reads the first nodes. It gives up after a while, so that those who watch learn that what they were told may be stale.
func (d *service) first(ctx context.Context, line string, most int) (driver.Look, error) {
	try, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	read := d.readAll
	if most == 1 {
		read = d.readFirst
	}
	nodes, rev, err := read(try, line)
	if err != nil && ctx.Err() != nil {
		err = failed("read line "+line, unanswered(ctx, nil))
	}
	return driver.Look{Nodes: nodes[:min(len(nodes), most)], At: uint64(rev)}, err
}

// readAll reads a line, and returns at which revision it did.
func (d *service) readAll(ctx context.Context, line string) ([]driver.Node, int64, error) {
	var nodes []driver.Node
	room := driverkit.NewRoom(d.lineBytes)
	rev, err := d.walk(ctx, line, func(kv *mvccpb.KeyValue) {
		if n, ok := d.keys.node(line, kv); ok {
			d.keys.decodeValue(&n, kv.Value)
			nodes = append(nodes, room.Keep(n))
		}
	})
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(nodes, byToken)
	return nodes, rev, nil
}

// readFirst reads the first node only, however long the line is.
func (d *service) readFirst(ctx context.Context, line string) ([]driver.Node, int64, error) {
	for {
		got, err := d.readLine(ctx, line, d.keys.line(line), clientv3.WithPrefix(),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(1))
		if err != nil {
			return nil, 0, err
		}
		rev := got.Header.Revision
		if len(got.Kvs) == 0 {
			return nil, rev, nil
		}
		if n, ok := d.keys.node(line, got.Kvs[0]); ok {
			d.keys.decodeValue(&n, got.Kvs[0].Value)
			return []driver.Node{n}, rev, nil
		}
		// The line begins with something that is no contender.
		var first driver.Node
		rev, err = d.walk(ctx, line, func(kv *mvccpb.KeyValue) {
			if n, ok := d.keys.node(line, kv); ok && (first.ID == "" || n.Token < first.Token) {
				first = n
			}
		}, clientv3.WithKeysOnly())
		if err != nil || first.ID == "" {
			return nil, rev, err
		}
		got, err = d.readLine(ctx, line, keyOf(&first))
		if err != nil {
			return nil, 0, err
		}
		if len(got.Kvs) > 0 && got.Kvs[0].CreateRevision == int64(first.Token) {
			d.keys.decodeValue(&first, got.Kvs[0].Value)
			return []driver.Node{first}, got.Header.Revision, nil
		}
		// That node has left meanwhile.
	}
}
