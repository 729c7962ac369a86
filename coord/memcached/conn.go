package memcached

import (
	"bufio"
	"context"
	"net"
	"time"

	"github.com/turnwise/turnwise/coord/register/storekit"
)

func (s *Store) newPool(network, address string) *storekit.Pool[*conn] {
	dial := func(ctx context.Context) (*conn, error) {
		d := net.Dialer{Timeout: 3 * time.Second}
		nc, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &conn{nc: nc, r: bufio.NewReaderSize(nc, 16<<10), w: bufio.NewWriterSize(nc, 16<<10)}, nil
	}
	return storekit.NewPool(s.conns, storekit.Recognized(dial, s.known, s.recognize))
}

// conn is a connection.
type conn struct {
	nc     net.Conn
	r      *bufio.Reader
	w      *bufio.Writer
	broken bool
	used   time.Time
	known  *memory // that it was seen to lead to
}

// staleAfter is how long a connection may have been idle before it is asked whether it is still there.
const staleAfter = time.Second

// Alive asks for something that is never there. A change that is sent on a connection that was cut meanwhile would be open.
func (c *conn) Alive(ctx context.Context) bool {
	if time.Since(c.used) < staleAfter {
		return true
	}
	_, err := c.ask(ctx, get("turnwise.ping"))
	return err == nil
}

func (c *conn) Usable() bool { return !c.broken }
func (c *conn) HangUp()      { c.nc.Close() }

// past is a deadline that has passed: it ends reads and writes under way.
var past = time.Unix(1, 0)

// during runs do, and breaks it off when ctx ends. After any error the connection is of no more use: answers may be under
// way.
func (c *conn) during(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { c.nc.SetDeadline(past) })
	err := do()
	if !stop() || err != nil {
		c.broken = true
	}
	c.used = time.Now()
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return &cut{err}
	}
	return nil
}
