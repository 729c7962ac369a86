package mysql

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Store keeps registers as rows of one table. It is a [register.Store].
type Store struct {
	config
	table   table
	sql     statements
	pool    *storekit.Pool[*conn]
	known   *storekit.Known[*memory]
	server  storekit.Run
	largest atomic.Int64 // value, in bytes

	forgetful bool // a crash may take what the server has answered
}

var _ register.Reconnecting = (*Store)(nil)

// RunsSince tells when a connection first led to the run of the server that was met last.
func (s *Store) RunsSince() time.Time { return s.server.Since() }

// Strength returns what the server promises with the settings that it had when the store was opened.
func (s *Store) Strength() driver.Strength {
	promised := strength
	if s.forgetful {
		promised.Restart = driver.ForgetsOpenly
	}
	return promised
}

// strength is that of a server that writes to disk before it answers, as it does by default.
var strength = driver.Strength{
	Restart:  driver.Remembers,
	Failover: driver.ForgetsOpenly,
	Tokens:   driver.RiseWhileRemembered,
	WakeUp:   driver.Polled,
}

// Close closes the connections.
func (s *Store) Close() error {
	s.pool.Close()
	return nil
}

// with runs do on a connection to the server that we know.
func (s *Store) with(ctx context.Context, do func(c *conn, known *memory) error) error {
	return storekit.With(ctx, s.pool, s.known, s.recognize, do)
}

// query repeats what changes nothing, if others were in its way or it was sent on a connection that had been cut.
func (s *Store) query(ctx context.Context, do func(c *conn, known *memory) error) error {
	return storekit.Query(ctx, func() error { return s.with(ctx, do) }, undone, isCut)
}
