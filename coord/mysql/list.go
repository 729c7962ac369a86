package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"fmt"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// page is how many registers List asks for at a time.
const page = 200

func (s *Store) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	err := storekit.Pages(prefix, page, func(from, to []byte) (found []register.Item, err error) {
		err = s.query(ctx, func(c *conn, known *memory) (err error) {
			found, err = s.some(ctx, c, from, to)
			if err == nil && len(found) < page {
				_, _, err = s.content(ctx, c, known, "", 0) // is it still the table that we know?
			}
			return err
		})
		return found, err
	}, func(key string) (register.Item, error) { return s.current(ctx, key) }, yield)
	return s.table.failed(ctx, err, "list %q", prefix)
}

// some reads a page, and no more than that, whatever the server says.
func (s *Store) some(ctx context.Context, c *conn, from, to []byte) (found []register.Item, err error) {
	err = c.query(ctx, s.sql.list, []any{from, to, int64(page)}, func(row []sqldriver.Value) error {
		if len(found) == page {
			return fmt.Errorf("the server answers with more than the %d rows that were asked for", page)
		}
		it := itemOf(text(row[0]), row[1:])
		if row[2] == nil {
			it.Value = nil
		}
		found = append(found, it)
		return nil
	})
	return found, err
}
