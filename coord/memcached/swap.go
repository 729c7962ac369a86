package memcached

import (
	"context"
	"fmt"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

func (s *Store) Swap(ctx context.Context, w register.Swap) (cur register.Item, err error) {
	if most := s.largest.Load(); int64(len(w.Value)) > most {
		err = fmt.Errorf("%w: %d bytes; the server keeps at most %d, see its -I", register.ErrTooLarge, len(w.Value), most)
		return register.Item{}, pkg.Failed(ctx, err, "swap %q", w.Key)
	}
	err = s.with(ctx, func(c *conn, known *memory) (err error) {
		if w.Old.IsZero() {
			cur, err = s.create(ctx, c, known, &w)
		} else {
			cur, err = s.change(ctx, c, known, &w)
		}
		return err
	})
	return cur, pkg.Failed(ctx, err, "swap %q", w.Key)
}

// change swaps a register that is not empty. If we have seen what is to be replaced, it takes one trip.
func (s *Store) change(ctx context.Context, c *conn, known *memory, w *register.Swap) (cur register.Item, err error) {
	cas := s.seen.of(known, w.Key, w.Old)
	for {
		if cas == 0 {
			cur, cas, err = s.read(ctx, c, known, w.Key)
			switch {
			case err != nil:
				return cur, err
			case cur.Version == w.Next:
				return cur, nil
			case cur.Version != w.Old:
				return cur, register.ErrConflict
			}
		}
		q := remove(s.keyOf(w.Key), cas)
		if !w.Next.IsZero() {
			q = replace(s.keyOf(w.Key), cas, encode(known, w.Key, w.Next, w.Value))
		}
		done, at, err := s.apply(ctx, c, known, q)
		if err != nil {
			return cur, err
		}
		if done {
			s.seen.put(known, w.Key, w.Next, at)
			if w.Next.IsZero() {
				return register.Item{Key: w.Key}, nil
			}
			return register.Item{Key: w.Key, Value: w.Value, Version: w.Next, Age: -1}, nil
		}
		cas = 0 // it was swapped since we saw it, or written back with another number: look again
	}
}

// apply sends one change, and with it asks for the mark: if the server has forgotten by then, what the change was based on is
// gone, and it does not count. After an error it is open whether it was done. cas is the number of what was stored; 0 if somebody has
// replaced it already.
func (s *Store) apply(ctx context.Context, c *conn, known *memory, q request) (done bool, cas uint64, err error) {
	a, err := c.ask(ctx, q, number(q.key), get(s.markKey()))
	if err == nil {
		err = s.check(known, a[2])
	}
	if err == nil {
		err = kept(a[0])
	}
	if err != nil || a[0].code != "HD" {
		return false, 0, err
	}
	if q.stores() && a[1].sum == q.sum() {
		cas = a[1].cas
	}
	return true, cas, nil
}

// create swaps a register that is empty. It puts the key into the directory first: a register that no listing shows would
// never be swept.
func (s *Store) create(ctx context.Context, c *conn, known *memory, w *register.Swap) (cur register.Item, err error) {
	for {
		cur, cas, err := s.read(ctx, c, known, w.Key)
		switch {
		case err != nil:
			return cur, err
		case cur.Version == w.Next:
			return cur, nil
		case !cur.Version.IsZero():
			return cur, register.ErrConflict
		}
		if err := s.announce(ctx, c, known, w.Key); err != nil {
			return cur, err
		}
		announced := time.Now()
		value := encode(known, w.Key, w.Next, w.Value)
		q := add(s.keyOf(w.Key), value)
		if cas != 0 { // of another memory
			q = replace(s.keyOf(w.Key), cas, value)
		}
		if time.Since(announced) > s.pruneAfter/4 {
			continue // this machine has slept: the key may have been taken away again
		}
		done, at, err := s.apply(ctx, c, known, q)
		if err != nil {
			return cur, err
		}
		if done {
			s.seen.put(known, w.Key, w.Next, at)
			return register.Item{Key: w.Key, Value: w.Value, Version: w.Next, Age: -1}, nil
		}
	}
}
