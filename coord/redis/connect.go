package redis

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Connect returns a client on the Redis or Valkey at an address, as [Open] takes it. Closing the client closes everything.
func Connect(ctx context.Context, address string, opts ...Option) (*coord.Client, error) {
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	return storekit.Connect(ctx, pkg, c.Settings, &Store{config: c}, func(ctx context.Context) (*Store, error) {
		return Open(ctx, address, opts...)
	})
}

// ConnectQuorum returns a client on several Redis or Valkey, as [OpenQuorum] takes them. Closing the client closes
// everything.
func ConnectQuorum(ctx context.Context, addresses []string, opts ...Option) (*coord.Client, error) {
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	return storekit.Connect(ctx, pkg, c.Settings, &Quorum{}, func(ctx context.Context) (*Quorum, error) {
		return OpenQuorum(ctx, addresses, opts...)
	})
}

// New returns a driver on a client that the caller has made, and closes. Any client will do, except one of a cluster. ctx
// governs only the check, and nothing is tried again. The driver takes two connections from the client's pool for blocking
// commands, and keeps them. Closing the driver leaves the client open.
func New(ctx context.Context, client rueidis.Client, opts ...Option) (driver.Driver, error) {
	s, err := openOn(ctx, client, opts...)
	if err != nil {
		return nil, err
	}
	return s.Driver(s), nil
}

// strength is that of a Redis as it is shipped. With appendfsync always, and without replicas, a restart forgets nothing.
var strength = driver.Strength{
	Order:    driver.FirstCome,
	Death:    driver.ByTTL,
	Restart:  driver.ForgetsOpenly,
	Failover: driver.ForgetsOpenly,
	Tokens:   driver.RiseWhileRemembered,
	WakeUp:   driver.Told,
}

// quorumStrength is that of Redis with appendfsync always. A majority takes over from a minority that is gone.
var quorumStrength = driver.Strength{
	Order:    driver.FirstCome,
	Death:    driver.ByTTL,
	Restart:  driver.Remembers,
	Failover: driver.Remembers,
	Tokens:   driver.RiseForEver,
	WakeUp:   driver.Told,
}
