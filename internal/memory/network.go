package memory

import (
	"context"
	"sync"
)

// Network carries what a driver and the service say to each other.
type Network interface {
	// Do carries a request to the service, where apply is called, and the answer back. After an error nobody knows
	// whether apply has been called, or will be. It returns when ctx ends.
	Do(ctx context.Context, r Request, apply func()) error

	// Tell carries an event to a driver, where deliver is called. It must not block; it is called with the service
	// locked.
	Tell(e Event, deliver func())
}

// Request is what a Network may know of a request.
type Request struct {
	Link    string // the driver's name
	Session int64  // 0: none
	Op      string
	Line    string
	Node    string // the node it is about
	Who     string // the contender, if its context says so; see WithName
	Changes bool   // puts, changes or deletes a node
	Upkeep  bool   // opens, renews or ends a session
}

// Event is what a Network may know of an event.
type Event struct {
	Link    string
	Session int64
	What    string
	Node    string
	Own     bool // the node belongs to the session that is told
}

type nameKey struct{}

// WithName names the contender that calls made with ctx belong to, for a Network that tells them apart.
func WithName(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, nameKey{}, name)
}

func nameOf(ctx context.Context) string {
	name, _ := ctx.Value(nameKey{}).(string)
	return name
}

// calls is the Network used when none is given: a request is a call. Drivers can be cut off one by one.
type calls struct {
	mu    sync.Mutex
	apart map[string]*partition
}

// partition is what becomes of a driver's traffic while it is cut off: requests wait, events pile up.
type partition struct {
	healed chan struct{}
	events []func()
}

func (c *calls) Do(ctx context.Context, r Request, apply func()) error {
	for {
		c.mu.Lock()
		p := c.apart[r.Link]
		c.mu.Unlock()
		if err := ctx.Err(); err != nil {
			return err
		}
		if p == nil {
			apply()
			return nil
		}
		select {
		case <-p.healed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *calls) Tell(e Event, deliver func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.apart[e.Link]; p != nil {
		p.events = append(p.events, deliver)
		return
	}
	deliver()
}

func (c *calls) cutOff(link string) (heal func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apart == nil {
		c.apart = make(map[string]*partition)
	}
	p := c.apart[link]
	if p == nil {
		p = &partition{healed: make(chan struct{})}
		c.apart[link] = p
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.apart[link] != p {
			return
		}
		delete(c.apart, link)
		for _, deliver := range p.events {
			deliver()
		}
		close(p.healed)
	}
}
