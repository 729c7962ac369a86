package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"io"

	"github.com/turnwise/turnwise/coord/register/storekit"
)

func newPool(size int, connector sqldriver.Connector) *storekit.Pool[*conn] {
	return storekit.NewPool(size, func(ctx context.Context) (*conn, error) {
		c, err := connector.Connect(ctx)
		if err != nil {
			return nil, err
		}
		return &conn{conn: c}, nil
	})
}

// conn is a connection to the server.
type conn struct {
	conn     sqldriver.Conn
	prepared bool
	known    *memory // what it was seen to lead to
}

func (c *conn) Alive(ctx context.Context) bool {
	return c.conn.(sqldriver.SessionResetter).ResetSession(ctx) == nil
}

func (c *conn) Usable() bool { return c.conn.(sqldriver.Validator).IsValid() }

// HangUp says goodbye, and waits for no answer.
func (c *conn) HangUp() { c.conn.Close() }

// exec runs a statement and returns how many rows it has changed.
func (c *conn) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	n, _, err := c.execTold(ctx, sql, args...)
	return n, err
}

// execTold also returns what the statement has told with LAST_INSERT_ID.
func (c *conn) execTold(ctx context.Context, sql string, args ...any) (n, told int64, err error) {
	r, err := c.conn.(sqldriver.ExecerContext).ExecContext(ctx, sql, named(args))
	if err != nil {
		return 0, 0, refused(err)
	}
	if n, err = r.RowsAffected(); err == nil {
		told, err = r.LastInsertId()
	}
	return n, told, err
}

// query runs a statement and calls scan with each row. The values in a row are good until scan returns.
func (c *conn) query(ctx context.Context, sql string, args []any, scan func(row []sqldriver.Value) error) (err error) {
	rows, err := c.conn.(sqldriver.QueryerContext).QueryContext(ctx, sql, named(args))
	if err != nil {
		return refused(err)
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	row := make([]sqldriver.Value, len(rows.Columns()))
	for {
		if err := rows.Next(row); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := scan(row); err != nil {
			return err
		}
	}
}

// refused makes an error for a statement that is longer than the server takes: the library would send it in two trips.
func refused(err error) error {
	if err == sqldriver.ErrSkip {
		return errPacket
	}
	return err
}

func named(args []any) []sqldriver.NamedValue {
	all := make([]sqldriver.NamedValue, len(args))
	for i, a := range args {
		all[i] = sqldriver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return all
}
