package storekit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
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
	size  int
	slots *Slots // one for each connection that is in use

	over context.Context // ends with the pool
	end  context.CancelFunc

	mu      sync.Mutex
	idle    []C
	spare   []C          // idle, and for renewals: one at most
	unasked []*making[C] // connections that are being made, and that nobody waits for any more
	closed  bool
}

// making is a connection that is being made. What it says counts when done is closed.
type making[C Conn] struct {
	began time.Time
	done  chan struct{}
	c     C
	err   error
}

const (
	// makeFor is how long a connection may take to be made.
	makeFor = 10 * time.Second

	// stuckAfter is how long one may take before another is begun beside it: the link may have been away when it was.
	stuckAfter = time.Second
)

// NewPool returns a pool of at most size connections, and one more on which sessions are renewed. Nothing else is sent there: who
// gives up breaks the connection that he has, and a server that others have filled gives nobody another.
func NewPool[C Conn](size int, dial func(context.Context) (C, error)) *Pool[C] {
	p := &Pool[C]{dial: dial, size: size, slots: NewSlots(size)}
	p.over, p.end = context.WithCancel(context.Background())
	return p
}

// Do calls do with a connection that nobody else uses meanwhile. If that breaks the connection, all that are idle are
// dropped: a server that has gone, or does not answer, takes them along. Only a renewal finds out what has become of its own.
func (p *Pool[C]) Do(ctx context.Context, do func(C) error) error {
	free, renews, err := p.slots.Take(ctx)
	if err != nil {
		return err
	}
	defer free()
	from := &p.idle
	var c C
	if renews {
		c, from, err = p.chooseSpare(ctx)
	} else {
		c, err = p.choose(ctx)
	}
	if err != nil {
		return err
	}
	defer p.put(c, from)
	err = do(c)
	if err != nil && !c.Usable() && !errors.Is(ctx.Err(), context.Canceled) {
		p.drop(&p.idle)
	}
	return err
}

// chooseSpare returns the connection for renewals. If there is none and none is to be had soon, it returns one of the others. It says
// where the connection belongs.
func (p *Pool[C]) chooseSpare(ctx context.Context) (c C, from *[]C, err error) {
	c, found, err := p.alive(ctx, &p.spare)
	if found || err != nil {
		return c, &p.spare, err
	}
	dialling, cancel := HalfOf(ctx)
	defer cancel()
	if c, err = p.connect(dialling); err == nil {
		if c.Alive(dialling) {
			return c, &p.spare, nil
		}
		c.HangUp()
		err = errHungUp // one that is full may say so only when it is asked something
	}
	c, found, e := p.alive(ctx, &p.idle)
	if found || e != nil {
		err = e
	}
	return c, &p.idle, err
}

var errHungUp = errors.New("the server takes the connection and does not answer")

// HalfOf returns a context for what may take half of the time that there is.
func HalfOf(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(end)/2)
	}
	return context.WithCancel(ctx)
}

// choose returns an idle connection that is alive, or a new one.
func (p *Pool[C]) choose(ctx context.Context) (C, error) {
	c, found, err := p.alive(ctx, &p.idle)
	if found || err != nil {
		return c, err
	}
	return p.connect(ctx)
}

// connect returns a new connection. When ctx ends it goes on being made, and whoever comes next has it: a server that takes longer than anybody
// waits would be asked for one connection after the other, and never be used.
func (p *Pool[C]) connect(ctx context.Context) (c C, err error) {
	p.mu.Lock()
	var m *making[C]
	if n := len(p.unasked); n > 0 && time.Since(p.unasked[n-1].began) < stuckAfter {
		m, p.unasked = p.unasked[n-1], p.unasked[:n-1]
	} else {
		m = &making[C]{began: time.Now(), done: make(chan struct{})}
		go p.finish(context.WithoutCancel(ctx), m)
	}
	p.mu.Unlock()
	select {
	case <-m.done:
		return m.c, m.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	select {
	case <-m.done:
		p.mu.Unlock()
		return m.c, m.err
	default:
	}
	p.unasked = append(p.unasked, m)
	p.mu.Unlock()
	return c, fmt.Errorf("the server has not taken the connection: %w", ctx.Err())
}

func (p *Pool[C]) finish(ctx context.Context, m *making[C]) {
	ctx, cancel := context.WithTimeout(ctx, makeFor)
	defer cancel()
	defer context.AfterFunc(p.over, cancel)()
	c, err := p.dial(ctx)
	p.mu.Lock()
	m.c, m.err = c, err
	close(m.done)
	i := slices.Index(p.unasked, m)
	if i >= 0 {
		p.unasked = slices.Delete(p.unasked, i, i+1)
	}
	p.mu.Unlock()
	if i >= 0 && err == nil {
		p.put(c, &p.idle)
	}
}

// Recognized returns a dial for a pool that does more than to make a connection: each is asked whether it leads to the memory that the store
// goes by, if there is one.
func Recognized[C Conn, M Found](dial func(context.Context) (C, error), k *Known[M], recognize func(context.Context, C, M) error) func(context.Context) (C, error) {
	return func(ctx context.Context) (C, error) {
		c, err := dial(ctx)
		if err != nil {
			return c, err
		}
		if known, e := k.Current(); e == nil {
			if err = recognize(ctx, c, known); err != nil && c.Usable() {
				err = nil // whoever uses it finds out as well
			}
		}
		if err != nil {
			c.HangUp()
		}
		return c, err
	}
}

// alive takes out a connection that is alive, if there is one.
func (p *Pool[C]) alive(ctx context.Context, from *[]C) (c C, found bool, err error) {
	for {
		c, found, err := p.pop(from)
		if err != nil || !found || c.Alive(ctx) {
			return c, found, err
		}
		c.HangUp()
		if ctx.Err() != nil {
			p.drop(from) // the others do not answer either
			return c, false, ctx.Err()
		}
	}
}

func (p *Pool[C]) pop(from *[]C) (c C, found bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return c, false, ErrClosed
	}
	n := len(*from)
	if n == 0 {
		return c, false, nil
	}
	c, *from = (*from)[n-1], (*from)[:n-1]
	return c, true, nil
}

func (p *Pool[C]) put(c C, into *[]C) {
	p.mu.Lock()
	keep := !p.closed && c.Usable() && len(*into) < p.size // others may have been made beside one that was stuck
	if keep {
		*into = append(*into, c)
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
	p.drop(&p.idle)
	p.drop(&p.spare)
}

func (p *Pool[C]) drop(these *[]C) {
	p.mu.Lock()
	all := *these
	*these = nil
	p.mu.Unlock()
	for _, c := range all {
		c.HangUp()
	}
}

// Close closes the connections, those in use as soon as they are not.
func (p *Pool[C]) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.end()
	p.Drop()
}
