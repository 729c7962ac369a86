package memcached

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Store keeps registers as items of one memcached. It is a [register.Store].
type Store struct {
	config
	pool    *storekit.Pool[*conn]
	known   *storekit.Known[*memory]
	largest atomic.Int64 // value, in bytes: what an item may have less what goes with it
	seen    casNumbers
	pruner  pruner

	pruneAfter time.Duration
}

var _ register.Store = (*Store)(nil)

// strength is that of a server that was started as the documentation asks for.
var strength = driver.Strength{
	Restart:  driver.ForgetsOpenly,
	Failover: driver.NoFailover,
	Tokens:   driver.RiseWhileRemembered,
	WakeUp:   driver.Polled,
}

// Strength returns what a memcached promises.
func (s *Store) Strength() driver.Strength {
	promised := strength
	if s.evictions {
		promised.Restart = driver.Forgets
	}
	return promised
}

// Close closes the connections.
func (s *Store) Close() error {
	s.pool.Close()
	return nil
}

// with runs do on a connection that leads to the memory that we know.
func (s *Store) with(ctx context.Context, do func(c *conn, known *memory) error) error {
	return storekit.With(ctx, s.pool, s.known, s.recognize, do)
}

// query repeats what changes nothing, if it was sent on a connection that had been cut.
func (s *Store) query(ctx context.Context, do func(c *conn, known *memory) error) error {
	return storekit.Query(ctx, func() error { return s.with(ctx, do) }, storekit.Never, isCut)
}
