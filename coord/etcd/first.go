package etcd

import (
	"bytes"
	"context"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/internal/bell"
)

// First reads, and listens to what can make another the first: the first node itself, since nobody joins ahead of it,
// or whatever is put into an empty line.
func (d *service) First(ctx context.Context, line string, seen *driver.Node) (driver.Node, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.life, func() { cancel(errClosed) })()

	n, read, err := d.first(ctx, line)
	if err != nil || seen == nil || !same(n, *seen) {
		return n, err
	}
	what := span{d.names.line(line), clientv3.GetPrefixRangeEnd(d.names.line(line))}
	if key, _, ok := parseID(seen.ID); ok {
		what = span{key: key}
	}
	bell := bell.New()
	l := d.watches.add(what, bell)
	defer d.watches.drop(l)
	watch := int64(0)
	for {
		patience := pollEvery/2 + rand.N(pollEvery)
		if watch == 0 {
			patience = requestTimeout // no stream can be had: read, which says why
		}
		look := false
		timer := time.NewTimer(patience)
		select {
		case <-bell:
		case <-timer.C:
			look = true
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return driver.Node{}, unanswered(ctx, "watch line "+line, nil)
		}
		news := l.take()
		if news.refused != nil {
			return driver.Node{}, news.refused
		}
		switch {
		case news.opened == 0:
			watch = 0
		case news.watch != watch:
			watch, look = news.watch, true
		}
		for _, e := range news.events {
			look = look || e.rev > read
		}
		if !look {
			continue
		}
		if n, read, err = d.first(ctx, line); err != nil || !same(n, *seen) {
			return n, err
		}
	}
}

// same leaves out what never changes alone.
func same(a, b driver.Node) bool {
	return a.ID == b.ID && a.Kind == b.Kind && bytes.Equal(a.Data, b.Data)
}

// first reads the first node, and at which revision. Unlike others it does not try for ever: who watches wants to
// hear that what was told may be stale.
func (d *service) first(ctx context.Context, line string) (driver.Node, int64, error) {
	try, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for _, limit := range []int64{1, 0} {
		var got *clientv3.GetResponse
		err := d.ask(try, "read line "+line, func(ctx context.Context) (err error) {
			got, err = d.kv.Get(ctx, d.names.line(line), clientv3.WithPrefix(),
				clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(limit))
			return err
		})
		if err != nil {
			if ctx.Err() != nil {
				err = unanswered(ctx, "read line "+line, nil)
			}
			return driver.Node{}, 0, err
		}
		for _, kv := range got.Kvs {
			if n, ok := d.names.node(line, kv); ok {
				d.names.decodeValue(&n, kv.Value)
				return n, got.Header.Revision, nil
			}
		}
		if len(got.Kvs) == 0 || limit == 0 {
			return driver.Node{}, got.Header.Revision, nil
		}
	}
	panic("unreachable")
}
