package kube

import (
	"context"
	"net/http"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

func (s *Store) Read(ctx context.Context, key string) (register.Item, error) {
	known, err := s.known.Current()
	var cur register.Item
	if err == nil {
		cur, _, err = s.content(ctx, known, key)
	}
	return cur, s.failed(ctx, err, "read %q", key)
}

// content asks for a register. Without a resourceVersion the API server asks a majority of etcd.
func (s *Store) content(ctx context.Context, known *memory, key string) (cur register.Item, at stand, err error) {
	before := known.seen.Of(key)
	var l lease
	date, err := s.askDated(ctx, request{method: http.MethodGet, name: s.nameOf(key)}, &l)
	switch {
	case isMissing(err, s.nameOf(key)):
		known.seen.Forget(key)
		return register.Item{Key: key}, stand{}, nil
	case err != nil:
		return cur, at, err
	case !l.Metadata.Going.IsZero():
		known.seen.Forget(key)
		return register.Item{Key: key}, stand{}, s.finish(ctx, l.Metadata)
	}
	if cur, at, err = l.item(); err != nil {
		return cur, at, err
	}
	if cur.Key != key {
		return cur, at, storekit.Denied("the lease %s has the key %.100q: has somebody copied it?", l.Metadata.Name, cur.Key)
	}
	if at.uid == before.uid && isEarlier(at.revision, before.revision) {
		return cur, at, s.forgot(known, "the lease "+l.Metadata.Name)
	}
	known.seen.Put(key, at)
	cur.Made = l.Metadata.made(date)
	return cur, at, nil
}
