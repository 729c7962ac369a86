package kube

import (
	"context"
	"fmt"
	"net/http"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

func (s *Store) Swap(ctx context.Context, w register.Swap) (cur register.Item, err error) {
	if len(w.Value) > maxValue { // the API server would say the same, in other words
		err = fmt.Errorf("%w: %d bytes; an object's annotations have room for %d", register.ErrTooLarge, len(w.Value), maxValue)
		return register.Item{}, s.failed(ctx, err, "swap %q", w.Key)
	}
	known, err := s.known.Current()
	if err == nil {
		cur, err = s.swap(ctx, known, &w)
	}
	return cur, s.failed(ctx, err, "swap %q", w.Key)
}

// swap writes at what was seen last.
func (s *Store) swap(ctx context.Context, known *memory, w *register.Swap) (register.Item, error) {
	at := known.seen.Of(w.Key)
	sure := at.version == w.Old && (at.uid != "" || w.Old.IsZero()) // or it was never there: a guess, which the server checks
	return storekit.Expected[stand]{
		Look:   func() (register.Item, stand, error) { return s.content(ctx, known, w.Key) },
		Change: func(at stand) (register.Item, error) { return s.write(ctx, known, w, at) },
		Stale:  isStale,
	}.Swap(w, at, sure)
}

// write is one conditional change. Emptying with notes takes two: the notes are told by what the first one leaves, and if the
// second one does not come, who lists takes that away.
func (s *Store) write(ctx context.Context, known *memory, w *register.Swap, at stand) (register.Item, error) {
	if w.Next.IsZero() && len(w.Notes) == 0 {
		return register.Item{Key: w.Key}, s.remove(ctx, known, w.Key, at)
	}
	sent := s.compose(w, at)
	q := request{method: http.MethodPost, body: sent}
	if at.uid != "" {
		q.method, q.name = http.MethodPut, s.nameOf(w.Key)
	}
	least := known.revision.Load() + 1
	var l lease
	if err := s.ask(ctx, q, &l); err != nil {
		return register.Item{}, err
	}
	at = stand{w.Next, l.Metadata.UID, l.Metadata.ResourceVersion}
	if err := s.saw(known, least, at.revision); err != nil {
		return register.Item{}, err
	}
	if what := sent.Metadata.lacks(&l.Metadata); what != "" { // what others read and list must be what we think stands there
		return register.Item{}, fmt.Errorf("the API server has stored another %s in the lease %s than was sent: does a webhook change leases?", what, l.Metadata.Name)
	}
	known.seen.Put(w.Key, at)
	if w.Next.IsZero() {
		if err := s.remove(ctx, known, w.Key, at); err != nil && !isStale(err) {
			s.Log.Debug("kube: an empty lease stays for now", "lease", l.Metadata.Name, "err", err)
		}
		return register.Item{Key: w.Key}, nil
	}
	return register.Item{Key: w.Key, Value: w.Value, Version: w.Next, Age: -1}, nil
}

// remove deletes the object that was seen, at the version that was seen.
func (s *Store) remove(ctx context.Context, known *memory, key string, at stand) error {
	err := s.ask(ctx, deletion(s.nameOf(key), at), nil)
	if err == nil {
		known.seen.Forget(key)
	}
	return err
}

// finish ends an object that was deleted and waits for somebody. We have nobody wait, so that is a stranger's doing: who may make leases
// may make that of a line before it is used. A write would have nobody wait any more, and the API server would then say that it has
// written, and delete the object. So whoever finds one finishes it, and takes it for gone.
func (s *Store) finish(ctx context.Context, m metadata) error {
	err := s.ask(ctx, request{method: http.MethodPut, name: m.Name, body: &lease{APIVersion: group, Kind: "Lease",
		Metadata: metadata{Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}}}, nil)
	if isStale(err) {
		return nil
	}
	return err
}
