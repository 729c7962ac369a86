package redis

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Store keeps registers in one Redis or Valkey.
type Store struct {
	server *server.Server
	known  *storekit.Known[server.Memory]
}

var _ register.Reconnecting = (*Store)(nil)

// RunsSince tells when the server was first seen to be in the run in which it was met last.
func (s *Store) RunsSince() time.Time { return s.server.RunsSince() }

// Strength returns what Redis promises as it is shipped. With appendfsync always, and without replicas, a restart forgets
// nothing, but neither is known before the server is asked.
func (s *Store) Strength() driver.Strength { return strength }

var strength = driver.Strength{
	Order:    driver.FirstCome,
	Death:    driver.ByTTL,
	Restart:  driver.ForgetsOpenly,
	Failover: driver.ForgetsOpenly,
	Tokens:   driver.RiseWhileRemembered,
	WakeUp:   driver.Told,
}

// Close ends the connections, and also a client that Open has made.
func (s *Store) Close() error {
	s.server.Close()
	return nil
}

// run runs a script in the memory that the store goes by.
func (s *Store) run(ctx context.Context, what *server.Script, keys, args []string) (rueidis.RedisMessage, error) {
	return s.server.Run(ctx, s.known, what, keys, args)
}
