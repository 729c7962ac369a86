package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// page is how many registers List asks for at a time.
const page = 200

func (s *Store) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	err := storekit.Pages(prefix, page, func(from, to []byte) (found []register.Item, err error) {
		err = s.query(ctx, func(c *pgx.Conn, known *memory) (err error) {
			found, err = s.some(ctx, c, known, from, to)
			if err == nil && len(found) < page {
				err = s.confirm(ctx, c, known)
			}
			return err
		})
		return found, err
	}, func(key string) (register.Item, error) { return s.current(ctx, key) }, yield)
	return s.table.failed(ctx, err, "list %q", prefix)
}

// some reads a page, and no more than that, whatever the server says.
func (s *Store) some(ctx context.Context, c *pgx.Conn, known *memory, from, to []byte) (found []register.Item, err error) {
	_, err = s.run(ctx, c, known, s.sql.list, []any{from, to, page}, func(r pgx.Rows) error {
		if len(found) == page {
			return fmt.Errorf("the server answers with more than the %d rows that were asked for", page)
		}
		var key, value []byte
		var version, age int64
		if err := r.Scan(&key, &version, &value, &age); err != nil {
			return err
		}
		found = append(found, register.Item{Key: string(key), Value: value, Version: storekit.Version(version), Age: storekit.Micros(age)})
		return nil
	})
	return found, err
}
