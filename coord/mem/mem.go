// Package mem is a coordination service within the process, for programs that need no other and for tests of
// programs that do. It behaves like a real one: clients have sessions that expire unless they are renewed, nodes are
// numbered, watches tell of changes. It runs under testing/synctest, where a session's TTL takes no time.
//
//	service := mem.New()
//	defer service.Close()
//	client := service.Client()
//	hold, err := mutex.New(client, "orders").Lock(ctx)
//
// To see what a program does when things go wrong, cut a client off with [Service.Partition], end its session with
// [Service.Expire], or take a node away with [Service.Remove].
package mem

import (
	"context"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
)

// Service is a coordination service that lives in this process.
type Service struct {
	ttl   time.Duration
	store *memory.Store

	mu    sync.Mutex
	links map[*coord.Client]*memory.Link // nil after Close
}

// Option sets up a Service. A nil Option changes nothing.
type Option func(*Service)

// WithTTL sets how long a session lives if it is not renewed. It is 10 s by default or if ttl is zero or less, and
// never less than half a second.
func WithTTL(ttl time.Duration) Option {
	return func(s *Service) {
		if s.ttl = register.DefaultTTL; ttl > 0 {
			s.ttl = max(ttl, register.MinTTL)
		}
	}
}

// New starts a service.
func New(opts ...Option) *Service {
	s := &Service{ttl: register.DefaultTTL, store: memory.NewStore(), links: make(map[*coord.Client]*memory.Link)}
	for _, o := range opts {
		if o != nil {
			o(s)
		}
	}
	s.store.WhenExpired(s.ttl, s.end)
	return s
}

// Client returns a client of the service with a session of its own, as if it ran in another process.
// It panics after Close.
func (s *Service) Client(opts ...coord.Option) *coord.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.links == nil {
		panic("turnwise: Client was called on a service after its Close")
	}
	link := s.store.Link()
	c := coord.NewClient(register.New(link, register.WithTTL(s.ttl)), opts...)
	s.links[c] = link
	return c
}

// Close closes all clients, and ends the service.
func (s *Service) Close() {
	s.mu.Lock()
	links := s.links
	s.links = nil
	s.mu.Unlock()
	for _, link := range links {
		link.Cut()() // heals it, whatever has cut it
	}
	for c := range links {
		c.Close()
	}
}

// Expire ends the client's session before its time. The client hears of it at once, unless it is cut off.
func (s *Service) Expire(c *coord.Client) {
	link := s.link(c)
	link.During(func() {
		for _, session := range link.Sessions() {
			s.end(session)
		}
	})
}

// Partition cuts the client off until the returned function is called: its requests get no answer, and it hears
// nothing.
func (s *Service) Partition(c *coord.Client) (heal func()) { return s.link(c).Cut() }

// Remove takes a node away, as an operator would. It reports whether the node was there.
func (s *Service) Remove(n coord.Node) (removed bool) {
	s.operate(func(ctx context.Context, operator *register.Driver) {
		lines, _ := operator.Lines(ctx, "") // the client may know its line by only a part of the name
		for _, line := range append([]string{n.Line}, lines...) {
			removed = removed || operator.Remove(ctx, driver.Node{Line: line, ID: n.ID}) == nil
		}
	})
	return removed
}

func (s *Service) end(session string) {
	s.operate(func(ctx context.Context, operator *register.Driver) { operator.EndSession(ctx, session) })
}

// operate has something done without going through a client.
func (s *Service) operate(do func(context.Context, *register.Driver)) {
	operator := register.New(s.store, register.WithTTL(s.ttl))
	do(context.Background(), operator)
	operator.Close(context.Background())
}

func (s *Service) link(c *coord.Client) *memory.Link {
	s.mu.Lock()
	defer s.mu.Unlock()
	link, ok := s.links[c]
	if !ok {
		panic("turnwise: the client is not one of this service")
	}
	return link
}
