package nats

import (
	"context"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Store keeps registers as messages of one stream, each under a subject of its own. It is a [register.Store].
type Store struct {
	config
	options natsgo.Options // that each connection is made with
	link    link
	ears    ears

	known  *storekit.Known[*memory]
	server storekit.Run
	life   *driverkit.Life // what keeps the connection runs on it
}

var _ register.Reconnecting = (*Store)(nil)

// RunsSince tells when a connection first led to the run of the server that was met last.
func (s *Store) RunsSince() time.Time { return s.server.Since() }

// Strength returns what NATS promises. As it comes it answers before a write is on its disk; see [WithMonitor].
func (s *Store) Strength() driver.Strength {
	if s.monitor != "" {
		return driver.Strength{Restart: driver.Remembers, Failover: driver.NoFailover, Tokens: driver.RiseForEver, WakeUp: driver.Told}
	}
	return driver.Strength{Restart: driver.ForgetsOpenly, Failover: driver.NoFailover, Tokens: driver.RiseWhileRemembered, WakeUp: driver.Told}
}

// Close ends the connection.
func (s *Store) Close() error {
	s.life.End(storekit.ErrClosed)
	_ = s.life.Rest(context.Background())
	return nil
}

// with does something on a connection to a server that has the memory that we go by. A connection leads to one run of one server
// for as long as it lasts, so what was seen to be true of it when it was new stays so.
func (s *Store) with(ctx context.Context, do func(c *conn, known *memory) error) error {
	known, err := s.known.Current()
	if err != nil {
		return err
	}
	c, err := s.link.get(ctx, s.life)
	if err != nil {
		return err
	}
	if c.known.Load() != known {
		if err := s.recognize(ctx, c, known); err != nil {
			return err
		}
		c.known.Store(known)
	}
	if err = do(c, known); isGone(err) {
		s.Log.Warn("nats: the stream has gone, or somebody else has made it anew", "stream", s.root)
		return s.forgot(known)
	}
	return err
}
