package mysql

import (
	"context"
	sqldriver "database/sql/driver"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

func (s *Store) Read(ctx context.Context, key string) (register.Item, error) {
	cur, err := s.current(ctx, key)
	return cur, s.table.failed(ctx, err, "read %q", key)
}

func (s *Store) current(ctx context.Context, key string) (cur register.Item, err error) {
	err = s.query(ctx, func(c *conn, known *memory) (err error) {
		cur, _, err = s.content(ctx, c, known, key, 0)
		return err
	})
	return cur, err
}

// content reads a register, and whether it is reserved by somebody else.
func (s *Store) content(ctx context.Context, c *conn, known *memory, key string, by int64) (cur register.Item, reserved bool, err error) {
	cur.Key = key
	err = c.query(ctx, s.sql.read, []any{by, []byte(key)}, func(row []sqldriver.Value) error {
		if integer(row[0]) != known.number || text(row[1]) != known.identity || integer(row[7]) != known.keeps {
			return s.forgot(known, "server number", integer(row[0]), "table", text(row[1]), "waits for its disk", integer(row[7]))
		}
		if row[2] == nil {
			return nil
		}
		cur = itemOf(key, row[2:])
		cur.Clock, reserved = storekit.Micros(integer(row[5])), integer(row[6]) != 0
		return nil
	})
	return cur, reserved, err
}

// itemOf returns the register that a row shows: version, value and age.
func itemOf(key string, row []sqldriver.Value) register.Item {
	return register.Item{Key: key, Version: storekit.Version(integer(row[0])), Value: bytesOf(row[1]), Age: storekit.Micros(integer(row[2]))}
}
