package memcached

import (
	"context"
	"slices"
	"strings"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// page is how many registers List asks for at a time: less if they can be so large that they would be too much for one trip.
func (s *Store) page() int {
	return int(max(1, min(100, maxAnswers/(s.largest.Load()+4<<10))))
}

// List reads the directory, then the registers that it names. memcached itself cannot list its keys. What the directory
// names and is not there is taken off it at the end.
func (s *Store) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	var of *memory
	var read []reply // the shelves
	var keys [shelves][]entry
	var all []entry
	err := s.query(ctx, func(c *conn, known *memory) error {
		of, all = known, nil
		var requests []request
		for n := range shelves {
			requests = append(requests, get(s.shelfKey(known, n)))
		}
		var err error
		if read, err = c.ask(ctx, append(requests, get(s.markKey()))...); err == nil {
			err = s.check(known, read[shelves])
		}
		for n := 0; n < shelves && err == nil; n++ {
			var found []entry
			found, err = decodeShelf(known, read[n])
			keys[n] = latest(found)
			all = append(all, keys[n]...)
		}
		return err
	})
	all = slices.DeleteFunc(all, func(e entry) bool { return !strings.HasPrefix(e.key, prefix) })
	gone := make(map[string]bool)
	for some := range slices.Chunk(all, s.page()) {
		if err != nil {
			break
		}
		var found []register.Item
		err = s.query(ctx, func(c *conn, known *memory) (err error) {
			found, err = s.fetch(ctx, c, known, some)
			return err
		})
		for _, it := range found {
			if it.Version.IsZero() {
				gone[it.Key] = true
			} else if err == nil && !yield(it) {
				return nil
			}
		}
	}
	if err != nil {
		return pkg.Failed(ctx, err, "list %q", prefix)
	}
	for n := range shelves {
		s.prune(ctx, of, n, read[n], keys[n], gone)
	}
	return nil
}

// fetch reads the registers of some keys.
func (s *Store) fetch(ctx context.Context, c *conn, known *memory, some []entry) (found []register.Item, err error) {
	var requests []request
	for _, e := range some {
		requests = append(requests, get(s.keyOf(e.key)))
	}
	a, err := c.ask(ctx, append(requests, get(s.markKey()))...)
	if err == nil {
		err = s.check(known, a[len(some)])
	}
	if err != nil {
		return nil, err
	}
	for i, e := range some {
		it, _, err := s.current(known, e.key, a[i])
		if it, err = storekit.Listed(e.key, it, err); err != nil {
			return nil, err
		}
		found = append(found, it)
	}
	return found, nil
}
