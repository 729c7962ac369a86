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
	"fmt"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/memory"
)

// Service is a coordination service that lives in this process.
type Service struct {
	memory *memory.Service

	mu      sync.Mutex
	clients map[*coord.Client]string // their links
}

// Option sets up a Service. A nil Option changes nothing.
type Option func(*config)

type config struct{ ttl time.Duration }

// WithTTL sets how long a session lives if it is not renewed. It is 10 s without this option, or with zero or less.
func WithTTL(ttl time.Duration) Option {
	return func(c *config) { c.ttl = max(ttl, 0) }
}

// New starts a service.
func New(opts ...Option) *Service {
	var cfg config
	for _, o := range opts {
		if o != nil {
			o(&cfg)
		}
	}
	return &Service{memory: memory.NewService(memory.Config{TTL: cfg.ttl}), clients: make(map[*coord.Client]string)}
}

// Client returns a client of the service with a session of its own, as if it ran in another process.
// It panics after Close.
func (s *Service) Client(opts ...coord.Option) *coord.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients == nil {
		panic("turnwise: Client was called on a service after its Close")
	}
	link := fmt.Sprintf("client %d", len(s.clients)+1)
	c := coord.NewClient(s.memory.NewDriver(link), opts...)
	s.clients[c] = link
	return c
}

// Close closes all clients, and ends the service.
func (s *Service) Close() {
	s.mu.Lock()
	clients := s.clients
	s.clients = nil
	s.mu.Unlock()
	for c, link := range clients {
		s.memory.CutOff(link)()
		c.Close()
	}
	s.memory.Close()
}

// Expire ends the client's session before its time. The client hears of it at once, unless it is cut off.
func (s *Service) Expire(c *coord.Client) { s.memory.ExpireLink(s.link(c)) }

// Partition cuts the client off until the returned function is called: its requests get no answer, and it hears
// nothing.
func (s *Service) Partition(c *coord.Client) (heal func()) { return s.memory.CutOff(s.link(c)) }

// Remove takes a node away, as an operator would. It reports whether the node was there.
func (s *Service) Remove(n coord.Node) bool { return s.memory.Remove(n.ID) }

func (s *Service) link(c *coord.Client) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	link, ok := s.clients[c]
	if !ok {
		panic("turnwise: the client is not one of this service")
	}
	return link
}
