package memcached

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// pool has the connections of a store.
type pool struct {
	network, address string
	places           chan struct{} // one for each connection that is in use

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

var errClosed = errors.New("the store is closed")

// staleAfter is how long a connection may have been idle before it is asked whether it is still there: the outcome of a swap
// that is sent on a dead connection would be open.
const staleAfter = time.Second

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
		if time.Since(c.used) < staleAfter {
			return c, nil
		}
		if _, err := c.ask(ctx, get("turnwise.ping")); err == nil {
			return c, nil
		}
		c.nc.Close()
		if ctx.Err() != nil {
			<-p.places
			p.drop() // the others do not answer either
			return nil, ctx.Err()
		}
	}
	c, err := p.dial(ctx)
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
	keep := !p.closed && !c.broken
	if keep {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if !keep {
		c.nc.Close()
	}
	<-p.places
}

// drop closes the connections that nobody uses.
func (p *pool) drop() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		c.nc.Close()
	}
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.drop()
}

func (p *pool) dial(ctx context.Context) (*conn, error) {
	d := net.Dialer{Timeout: 3 * time.Second}
	nc, err := d.DialContext(ctx, p.network, p.address)
	if err != nil {
		return nil, err
	}
	return &conn{nc: nc, r: bufio.NewReaderSize(nc, 16<<10), w: bufio.NewWriterSize(nc, 16<<10), used: time.Now()}, nil
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n
}
