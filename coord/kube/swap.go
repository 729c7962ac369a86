package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/turnwise/turnwise/coord/register"
)

func (s *Store) Swap(ctx context.Context, w register.Swap) (cur register.Item, err error) {
	if len(w.Value) > maxValue { // the API server would say the same, in other words
		err = fmt.Errorf("%w: %d bytes; an object's annotations have room for %d", register.ErrTooLarge, len(w.Value), maxValue)
		return register.Item{}, s.failed(ctx, err, "swap %q", w.Key)
	}
	known, err := s.known.Memory()
	if err == nil {
		cur, err = s.swap(ctx, known, &w)
	}
	switch {
	case err == nil:
		return cur, nil
	case errors.Is(err, register.ErrConflict):
		return cur, register.ErrConflict
	}
	return register.Item{}, s.failed(ctx, err, "swap %q", w.Key)
}

// maxTries is how often others may be in the way of a swap without having swapped the register.
const maxTries = 20

// swap writes at what was seen last. If that has changed it looks why.
func (s *Store) swap(ctx context.Context, known *memory, w *register.Swap) (register.Item, error) {
	at := known.seen.of(w.Key)
	sure := at.version == w.Old && (at.uid != "" || w.Old.IsZero()) // or it was never there: a guess, which the server checks
	for range maxTries {
		if !sure {
			cur, found, err := s.content(ctx, known, w.Key)
			switch {
			case err != nil:
				return cur, err
			case cur.Version == w.Next && w.Next != w.Old:
				return cur, nil // an earlier try
			case cur.Version != w.Old:
				return cur, register.ErrConflict
			}
			at = found
		}
		if w.Old == w.Next && len(w.Notes) == 0 {
			if sure { // nothing is to be written, so nobody checks the guess
				sure = false
				continue
			}
			return register.Item{Key: w.Key}, nil
		}
		err := s.write(ctx, known, w, at)
		switch {
		case err == nil && w.Next.IsZero():
			return register.Item{Key: w.Key}, nil
		case err == nil:
			return register.Item{Key: w.Key, Value: w.Value, Version: w.Next, Age: -1}, nil
		case !isStale(err):
			return register.Item{}, err
		}
		sure = false
	}
	return register.Item{}, errors.New("the lease changes all the time, though nobody swaps the register: what else writes to it?")
}

// write is one conditional change. Emptying with notes takes two: the notes are told by what the first one leaves, and if the
// second one does not come, who lists takes that away.
func (s *Store) write(ctx context.Context, known *memory, w *register.Swap, at stand) error {
	if w.Next.IsZero() && len(w.Notes) == 0 {
		return s.remove(ctx, known, w.Key, at)
	}
	q := request{method: http.MethodPost, body: s.compose(w, at)}
	if at.uid != "" {
		q.method, q.name = http.MethodPut, s.nameOf(w.Key)
	}
	least := known.revision.Load() + 1
	var l lease
	if err := s.ask(ctx, q, &l); err != nil {
		return err
	}
	at = stand{w.Next, l.Metadata.UID, l.Metadata.ResourceVersion}
	if err := s.saw(known, least, at.revision); err != nil {
		return err
	}
	known.seen.note(w.Key, at)
	if w.Next.IsZero() {
		if err := s.remove(ctx, known, w.Key, at); err != nil && !isStale(err) {
			s.Log.Debug("kube: an empty lease stays for now", "lease", l.Metadata.Name, "err", err)
		}
	}
	return nil
}

// remove deletes the object that was seen, at the version that was seen.
func (s *Store) remove(ctx context.Context, known *memory, key string, at stand) error {
	err := s.ask(ctx, deletion(s.nameOf(key), at), nil)
	if err == nil {
		known.seen.note(key, stand{})
	}
	return err
}
