package redis

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
)

// Connect returns a client on the Redis or Valkey at an address, as [Open] takes it. Closing the client closes everything.
func Connect(ctx context.Context, address string, opts ...Option) (*coord.Client, error) {
	c, err := configure(opts)
	if err == nil {
		err = coord.CheckStrength(strength, c.client...)
	}
	if err != nil {
		return nil, err
	}
	s, err := Open(ctx, address, opts...)
	if err != nil {
		return nil, err
	}
	return coord.NewClient(c.driver(s), c.client...), nil
}

// ConnectQuorum returns a client on several Redis or Valkey, as [OpenQuorum] takes them. Closing the client closes
// everything.
func ConnectQuorum(ctx context.Context, addresses []string, opts ...Option) (*coord.Client, error) {
	c, err := configure(opts)
	if err == nil {
		err = coord.CheckStrength(quorumStrength, c.client...)
	}
	if err != nil {
		return nil, err
	}
	q, err := OpenQuorum(ctx, addresses, opts...)
	if err != nil {
		return nil, err
	}
	return coord.NewClient(c.driver(q), c.client...), nil
}

// New returns a driver on a client of the caller's; see [OpenWith]. Closing the driver leaves the client open.
func New(ctx context.Context, client rueidis.Client, opts ...Option) (driver.Driver, error) {
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	s, err := OpenWith(ctx, client, opts...)
	if err != nil {
		return nil, err
	}
	return c.driver(s), nil
}

func (c config) driver(s register.Store) driver.Driver {
	return register.New(s, register.WithTTL(c.ttl), register.WithLogger(c.log))
}

// shown is an error with words of the service in it.
type shown struct{ error }

func (s *shown) Error() string { return coord.Printable(s.error.Error()) }
func (s *shown) Unwrap() error { return s.error }

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
