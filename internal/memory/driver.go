package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Driver is the near side: one process's access to a Service.
type Driver struct {
	service *Service
	name    string
	timeout time.Duration

	mu       sync.Mutex
	closed   bool
	sessions map[*session]struct{}
	cleanups sync.WaitGroup
}

// NewDriver returns a driver under a name that the Network will see.
func (s *Service) NewDriver(name string) *Driver {
	return &Driver{service: s, name: name, timeout: min(s.cfg.TTL/4, time.Second), sessions: make(map[*session]struct{})}
}

// do sends a request of no session.
func (d *Driver) do(ctx context.Context, r Request, apply func()) error {
	r.Link, r.Who = d.name, nameOf(ctx)
	ctx, cancel := context.WithTimeout(ctx, d.timeout*9/10) // so that whoever allows RequestTimeout hears of it
	defer cancel()
	return d.service.cfg.Network.Do(ctx, r, apply)
}

func (d *Driver) Open(ctx context.Context) (driver.Session, error) {
	s := newSession(d)
	var id int64
	sent := time.Now()
	if err := d.do(ctx, Request{Op: "open", Upkeep: true}, func() { id = d.service.open(d.name, s.hear) }); err != nil {
		s.end()
		return nil, cmp.Or(ctx.Err(), err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		s.end()
		return nil, fmt.Errorf("memory: %w: the driver is closed", driver.ErrDenied)
	}
	s.id = id
	s.renewed(sent)
	d.sessions[s] = struct{}{}
	d.cleanups.Add(1)
	go s.renew()
	return s, nil
}

func (d *Driver) Line(ctx context.Context, line string) ([]driver.Node, error) {
	return fetch(ctx, d, Request{Op: "line", Line: line}, func() []driver.Node { return d.service.Nodes(line) })
}

func (d *Driver) First(ctx context.Context, line string, seen *driver.Node) (driver.Node, error) {
	for {
		changed := d.service.nextChange(line)
		var nodes []driver.Node
		err := d.do(ctx, Request{Op: "first", Line: line}, func() { nodes = d.service.Nodes(line) })
		if err != nil {
			return driver.Node{}, cmp.Or(ctx.Err(), err)
		}
		var first driver.Node
		if len(nodes) > 0 {
			first = nodes[0]
		}
		if seen == nil || first.ID != seen.ID || first.Kind != seen.Kind || !bytes.Equal(first.Data, seen.Data) {
			return first, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return driver.Node{}, ctx.Err()
		}
	}
}

func (d *Driver) Lines(ctx context.Context, prefix string) ([]string, error) {
	return fetch(ctx, d, Request{Op: "lines", Line: prefix}, func() []string { return d.service.Names(prefix) })
}

func (d *Driver) Remove(ctx context.Context, n driver.Node) error {
	var found bool
	err := d.do(ctx, Request{Op: "remove", Line: n.Line, Node: n.ID}, func() { found = d.service.Remove(n.ID) })
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	if !found {
		return driver.ErrRemoved
	}
	return nil
}

// fetch reads something, however often it takes until there is an answer.
func fetch[T any](ctx context.Context, d *Driver, r Request, read func() T) (T, error) {
	for {
		got := new(T) // a late answer is written to it when nobody reads it any more
		if err := d.do(ctx, r, func() { *got = read() }); err == nil {
			return *got, nil
		}
		if !pause(ctx, d.timeout/20) {
			return *new(T), ctx.Err()
		}
	}
}

func (d *Driver) RequestTimeout() time.Duration { return d.timeout }

func (d *Driver) Close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	var open []*session
	for s := range d.sessions {
		open = append(open, s)
	}
	d.mu.Unlock()
	for _, s := range open {
		s.Close(ctx)
	}
	done := make(chan struct{})
	go func() {
		d.cleanups.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pause reports whether ctx still lives after d.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
