package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"sync"
)

// pool has the connections of a store. It is not database/sql's, since a connection must say which memory it was seen to
// have, and a statement must never be sent again on another connection unnoticed.
type pool struct {
	places chan struct{} // one for each connection that is in use
	dial   func(ctx context.Context) (driver.Conn, error)

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

var errClosed = errors.New("the store is closed")

func newPool(size int, connector driver.Connector) *pool {
	return &pool{places: make(chan struct{}, size), dial: connector.Connect}
}

// get returns a connection that nobody else uses, until put.
func (p *pool) get(ctx context.Context) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case p.places <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		c, closed := p.pop()
		if closed {
			<-p.places
			return nil, errClosed
		}
		if c == nil {
			break
		}
		if c.alive(ctx) {
			return c, nil
		}
		c.hangUp()
	}
	c, err := dial(ctx, p.dial)
	if err != nil {
		<-p.places
		return nil, err
	}
	return c, nil
}

func (p *pool) pop() (c *conn, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 && !p.closed {
		c, p.idle = p.idle[n-1], p.idle[:n-1]
	}
	return c, p.closed
}

func (p *pool) put(c *conn) {
	p.mu.Lock()
	keep := !p.closed && c.isValid()
	if keep {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if !keep {
		c.hangUp()
	}
	<-p.places
}

// drop closes the connections that nobody uses: something has happened that concerns them all.
func (p *pool) drop() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		c.hangUp()
	}
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.drop()
}

// conn is a connection to the server.
type conn struct {
	conn     driver.Conn
	prepared bool
	known    *memory // what it was seen to lead to
}

func dial(ctx context.Context, connect func(ctx context.Context) (driver.Conn, error)) (*conn, error) {
	c, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{conn: c}, nil
}

// alive reports whether the server has not hung up, as far as this machine knows.
func (c *conn) alive(ctx context.Context) bool {
	return c.conn.(driver.SessionResetter).ResetSession(ctx) == nil
}

func (c *conn) isValid() bool { return c.conn.(driver.Validator).IsValid() }

// hangUp closes a connection. It says goodbye, and waits for no answer.
func (c *conn) hangUp() { c.conn.Close() }

// exec runs a statement and returns how many rows it has changed.
func (c *conn) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	r, err := c.conn.(driver.ExecerContext).ExecContext(ctx, sql, named(args))
	if err != nil {
		return 0, refused(err)
	}
	return r.RowsAffected()
}

// query runs a statement and calls scan with each row. The values in a row are good until scan returns.
func (c *conn) query(ctx context.Context, sql string, args []any, scan func(row []driver.Value) error) (err error) {
	rows, err := c.conn.(driver.QueryerContext).QueryContext(ctx, sql, named(args))
	if err != nil {
		return refused(err)
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	row := make([]driver.Value, len(rows.Columns()))
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
	if err == driver.ErrSkip {
		return errPacket
	}
	return err
}

func named(args []any) []driver.NamedValue {
	all := make([]driver.NamedValue, len(args))
	for i, a := range args {
		all[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return all
}
