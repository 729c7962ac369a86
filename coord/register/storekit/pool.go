package storekit

import (
	"context"
	"errors"
	"sync"
)

// Conn is a connection of a Pool.
type Conn interface {
	// Alive reports whether the server has not hung up, as far as can be told soon. It is asked before a connection that was
	// idle is used again: the outcome of a swap that is sent on a dead one would be open.
	Alive(ctx context.Context) bool

	// Usable reports whether nothing has broken the connection.
	Usable() bool

	// HangUp closes the connection, and waits for nobody.
	HangUp()
}

// Pool has the connections of a store. Unlike that of database/sql it never sends anything again on another connection
// unnoticed, and a connection can say which memory it was seen to lead to.
type Pool[C Conn] struct {
	dial  func(context.Context) (C, error)
	slots *Slots // one for each connection that is in use

	mu     sync.Mutex
	idle   []C
	closed bool
}

// NewPool returns a pool of at most size connections, and one more as long as all of them are in use when a session is renewed.
func NewPool[C Conn](size int, dial func(context.Context) (C, error)) *Pool[C] {
	return &Pool[C]{dial: dial, slots: NewSlots(size)}
}

// Do calls do with a connection that nobody else uses meanwhile. If that breaks the connection, all that are idle are
// dropped: a server that has gone, or does not answer, takes them along.
func (p *Pool[C]) Do(ctx context.Context, do func(C) error) error {
	free, err := p.slots.Take(ctx)
	if err != nil {
		return err
	}
	defer free()
	c, err := p.choose(ctx)
	if err != nil {
		return err
	}
	defer p.put(c)
	err = do(c)
	if err != nil && !c.Usable() && !errors.Is(ctx.Err(), context.Canceled) {
		p.Drop()
	}
	return err
}

// choose returns an idle connection that is alive, or a new one.
func (p *Pool[C]) choose(ctx context.Context) (c C, err error) {
	for {
		c, found, err := p.pop()
		switch {
		case err != nil:
			return c, err
		case !found:
			return p.dial(ctx)
		case c.Alive(ctx):
			return c, nil
		}
		c.HangUp()
		if ctx.Err() != nil {
			p.Drop() // the others do not answer either
			return c, ctx.Err()
		}
	}
}

func (p *Pool[C]) pop() (c C, found bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return c, false, ErrClosed
	}
	n := len(p.idle)
	if n == 0 {
		return c, false, nil
	}
	c, p.idle = p.idle[n-1], p.idle[:n-1]
	return c, true, nil
}

func (p *Pool[C]) put(c C) {
	p.mu.Lock()
	keep := !p.closed && c.Usable()
	if keep {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if !keep {
		c.HangUp()
	}
}

// With calls do with a connection of the pool that leads to the memory that the store goes by: recognize is asked about each before
// it is used, and remembers what it has found.
func With[C Conn, M Found](ctx context.Context, p *Pool[C], k *Known[M], recognize func(context.Context, C, M) error, do func(C, M) error) error {
	known, err := k.Current()
	if err != nil {
		return err
	}
	return p.Do(ctx, func(c C) error {
		if err := recognize(ctx, c, known); err != nil {
			return err
		}
		return do(c, known)
	})
}

// Drop closes the connections that nobody uses: something has happened that concerns them all.
func (p *Pool[C]) Drop() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		c.HangUp()
	}
}

// Close closes the connections, those in use as soon as they are not.
func (p *Pool[C]) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Drop()
}
