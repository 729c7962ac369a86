package mysql

import (
	"context"
	"database/sql/driver"

	"github.com/turnwise/turnwise/coord/register"
)

func (s *Store) Read(ctx context.Context, key string) (cur register.Item, err error) {
	err = s.query(ctx, func(c *conn, known *memory) (err error) {
		cur, _, err = s.content(ctx, c, known, key, 0)
		return err
	})
	if err != nil {
		return register.Item{}, s.failed(ctx, "read", err)
	}
	return cur, nil
}

// query repeats what changes nothing, if others were in its way or it was sent on a connection that had been cut.
func (s *Store) query(ctx context.Context, do func(c *conn, known *memory) error) (err error) {
	cuts := 0
	for range maxTries {
		err = s.with(ctx, do)
		cut := err != nil && isCut(err)
		if cut {
			cuts++
		}
		if !cut && !undone(err) || cuts > maxCuts || ctx.Err() != nil {
			break
		}
	}
	return err
}

// maxCuts is how often a connection may be found to be cut before it is the server's fault.
const maxCuts = 2

// page is how many registers List asks for at a time, so that yield may use the store: the connection is free then.
const page = 200

func (s *Store) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	from, end := []byte(prefix), past(prefix)
	if prefix == "" {
		from = []byte{1} // the rows that are not registers come before it
	}
	for {
		var found []register.Item
		err := s.query(ctx, func(c *conn, known *memory) error {
			found = found[:0]
			err := c.query(ctx, s.sql.list, []any{from, end, int64(page)}, func(row []driver.Value) error {
				found = append(found, register.Item{Key: text(row[0]), Version: versionOf(integer(row[1])), Value: bytesOf(row[2]), Age: ageOf(row[3])})
				return nil
			})
			if err == nil && len(found) < page {
				_, _, err = s.content(ctx, c, known, "", 0) // is it still the table that we know?
			}
			return err
		})
		if err != nil {
			return s.failed(ctx, "list", err)
		}
		for _, it := range found {
			if !yield(it) {
				return nil
			}
		}
		if len(found) < page {
			return nil
		}
		from = append([]byte(found[len(found)-1].Key), 0) // there is no key in between
	}
}

// past returns an end for a range of keys: all keys with the prefix, and no others, lie from the prefix up to it. Keys are
// UTF-8, so none of their bytes is 0xff.
func past(prefix string) []byte { return append([]byte(prefix), 0xff) }
