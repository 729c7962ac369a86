// Package server is one Redis or Valkey as coord/redis and coord/redis/quorum need it. The first keeps registers in one, the
// second has several agree. Neither needs more of a server than this:
//
//	Parse     an address and a Config -> an Address
//	Dial      an Address -> a Server; On makes one of the caller's client
//	Check     can the server, and may the user, do all that is needed later
//	Recall    which memory the server has: another one means that it may have forgotten something
//	RunIn     run a script in a certain memory, or not at all
//	Run       the same, in the memory that the caller goes by
//	Do        the same, whatever the server remembers
//	List      what stands under the keys that begin with a prefix
//	Listen    hear what scripts publish
//	Close     end the connections
package server

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Server is one Redis or Valkey, or the master that sentinels name. What its Config says is fixed from the beginning.
type Server struct {
	Config
	Address string // without secrets; empty if the client is the caller's

	// MayComeBack is set where a memory that comes back after others is no danger, nor one that comes back with a restart: nobody goes by
	// that of one server.
	MayComeBack bool

	mark     string // the key that says what the database remembers
	index    string // the key with the keys of all registers
	channels string // what channels begin with; known after Inspect

	conn  *connection
	aside *connection // on which sessions are renewed: what they live by does not wait behind what a stranger has made large
	ears  *ears

	ended    ended
	renewals renewals
	history  atomic.Pointer[string] // the replication id of the server, as it was found last
	started  storekit.Run

	secure  bool         // its connections are encrypted
	reached *atomic.Bool // it has accepted a connection
	cut     func()       // ends the connections of a client that is ours
	release func()       // ends that client
}

// On returns a Server on a client of the caller's, which Close leaves open.
func On(client rueidis.Client, c Config) *Server {
	return &Server{
		Config:  c,
		mark:    c.Beside("memory"),
		index:   c.Beside("keys"),
		conn:    newConnection(client, rueidis.PubSubHooks{}),
		aside:   newConnection(client, rueidis.PubSubHooks{}),
		ears:    newEars(client, c.Log),
		ended:   ended{looking: storekit.NewLooking(), all: make(map[string]string)},
		reached: new(atomic.Bool),
		cut:     func() {},
		release: func() {},
	}
}

// Beside returns a key that is no register's: it has a dot where those have the colon that ends the root.
func (c *Config) Beside(name string) string { return strings.TrimSuffix(c.Root, ":") + "." + name }

// Channel returns the channel of a topic. All databases of a server share their channels, so it names the database.
func (s *Server) Channel(topic string) string { return s.channels + topic }

// Index is the key with the keys of all registers, a sorted set.
func (s *Server) Index() string { return s.index }

// Listen calls hear with what is published on the channel of a topic, and with nil when something may have been missed. All
// channels are heard on one connection. It returns when the listening has begun; hear is not called after stop.
func (s *Server) Listen(ctx context.Context, topic string, hear func([]byte)) (stop func(), err error) {
	return s.ears.listen(ctx, s.Channel(topic), hear)
}

// Close ends the connections, and also a client that Dial has made.
func (s *Server) Close() {
	s.cut()
	s.ears.close()
	s.conn.close()
	s.aside.close()
	s.release()
}
