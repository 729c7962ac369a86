package memcached

import (
	"context"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

func (s *Store) Read(ctx context.Context, key string) (it register.Item, err error) {
	err = s.query(ctx, func(c *conn, known *memory) (err error) {
		it, _, err = s.read(ctx, c, known, key)
		return err
	})
	return it, pkg.Failed(ctx, err, "read %q", key)
}

// read returns what stands in a register, and the number that the server has given the item. There is a number without a
// register if the item is of another memory.
func (s *Store) read(ctx context.Context, c *conn, known *memory, key string) (it register.Item, cas uint64, err error) {
	a, err := c.ask(ctx, get(s.keyOf(key)), get(s.markKey()))
	if err == nil {
		err = s.check(known, a[1])
	}
	if err != nil {
		return it, 0, err
	}
	return s.current(known, key, a[0])
}

// current returns what an answer shows in this memory. An item that was written before the server forgot, and came back
// late, counts as absent.
func (s *Store) current(known *memory, key string, a reply) (it register.Item, cas uint64, err error) {
	absent := register.Item{Key: key}
	if !a.found() {
		return absent, 0, nil
	}
	it, current, err := decode(known, a.value)
	switch {
	case err != nil || !current:
		return absent, a.cas, err
	case it.Key != key:
		return absent, 0, storekit.NotOurs("the keys %.100q and %.100q have the same place", key, it.Key)
	}
	s.seen.put(known, key, it.Version, a.cas)
	return it, a.cas, nil
}
