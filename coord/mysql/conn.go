package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"fmt"
	"io"

	"github.com/turnwise/turnwise/coord/register/storekit"
)

func (s *Store) newPool(connector sqldriver.Connector) *storekit.Pool[*conn] {
	dial := func(ctx context.Context) (c *conn, err error) {
		c = new(conn)
		ctx = context.WithValue(ctx, vettedKey{}, &c.vetted)
		if err = c.guarded(func() (err error) { c.conn, err = connector.Connect(ctx); return err }); err != nil {
			return nil, err
		}
		return c, nil
	}
	return storekit.NewPool(s.conns, storekit.Recognized(dial, s.known, s.recognize))
}

// guarded calls the library, which panics where it looks beyond the end of what the server says. That is an error here, and
// such a connection is of no more use. While it was being made, a goroutine of the library's stays behind.
func (c *conn) guarded(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.broken = true
			err = fmt.Errorf("the server's answer ends too soon: %v", p)
			if c.conn == nil && c.vetted != nil {
				c.vetted.Close()
			}
		}
		if wrong := c.vetted.wrong(); err != nil && wrong != nil {
			err = wrong
		}
	}()
	return do()
}

// conn is a connection to the server.
type conn struct {
	conn     sqldriver.Conn
	prepared bool
	broken   bool
	vetted   *vetted
	known    *memory // what it was seen to lead to
}

func (c *conn) Alive(ctx context.Context) bool {
	return c.conn.(sqldriver.SessionResetter).ResetSession(ctx) == nil
}

func (c *conn) Usable() bool { return !c.broken && c.conn.(sqldriver.Validator).IsValid() }

// HangUp says goodbye, and waits for no answer.
func (c *conn) HangUp() { c.conn.Close() }

// exec runs a statement and returns how many rows it has changed.
func (c *conn) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	n, _, err := c.execTold(ctx, sql, args...)
	return n, err
}

// execTold also returns what the statement has told with LAST_INSERT_ID.
func (c *conn) execTold(ctx context.Context, sql string, args ...any) (n, told int64, err error) {
	var r sqldriver.Result
	err = c.guarded(func() (err error) {
		r, err = c.conn.(sqldriver.ExecerContext).ExecContext(ctx, sql, named(args))
		return err
	})
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
	var rows sqldriver.Rows
	err = c.guarded(func() (err error) {
		rows, err = c.conn.(sqldriver.QueryerContext).QueryContext(ctx, sql, named(args))
		return err
	})
	if err != nil {
		return refused(err)
	}
	defer func() {
		if e := c.guarded(rows.Close); err == nil {
			err = e
		}
	}()
	row := make([]sqldriver.Value, len(rows.Columns()))
	for {
		if err := c.guarded(func() error { return rows.Next(row) }); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := c.guarded(func() error { return scan(row) }); err != nil { // it may have less columns than were asked for
			c.breakOff() // or the library would read on to the last row, whatever becomes of ctx
			return err
		}
	}
}

// breakOff ends a connection in the middle of an answer.
func (c *conn) breakOff() {
	c.broken = true
	if c.vetted != nil {
		c.vetted.Close()
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
