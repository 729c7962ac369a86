package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/turnwise/turnwise/coord/register"
)

func (s *Store) Read(ctx context.Context, key string) (cur register.Item, err error) {
	err = s.query(ctx, func(c *pgx.Conn, known *memory) (err error) {
		cur, _, err = s.content(ctx, c, known, s.sql.read, key, int64(0))
		if err == nil && cur.Version.IsZero() {
			err = s.confirm(ctx, c, known)
		}
		return err
	})
	if err != nil {
		return register.Item{}, s.failed(ctx, "read", err)
	}
	return cur, nil
}

// query repeats what changes nothing, if others were in its way or it was sent on a connection that had been cut.
func (s *Store) query(ctx context.Context, do func(c *pgx.Conn, known *memory) error) (err error) {
	cut := 0
	for range maxTries {
		var b *broken
		if err = s.with(ctx, do); errors.As(err, &b) {
			cut++
		}
		if b == nil && !undone(err) || cut > maxCuts {
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
		err := s.query(ctx, func(c *pgx.Conn, known *memory) error {
			found = found[:0]
			_, err := s.run(ctx, c, known, s.sql.list, []any{from, end, page}, func(r pgx.Rows) error {
				var key, value []byte
				var version, age int64
				if err := r.Scan(&key, &version, &value, &age); err != nil {
					return err
				}
				found = append(found, register.Item{Key: string(key), Value: value, Version: versionOf(version), Age: ageOf(age)})
				return nil
			})
			if err == nil && len(found) < page {
				err = s.confirm(ctx, c, known)
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

// past returns the first key that is beyond all with the prefix; nil if there is none.
func past(prefix string) []byte {
	b := []byte(prefix)
	for len(b) > 0 && b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	if len(b) == 0 {
		return nil
	}
	b[len(b)-1]++
	return b
}
