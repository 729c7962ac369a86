package redis

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Connect returns a client on the Redis or Valkey at an address, as [Open] takes it. Closing the client closes everything.
func Connect(ctx context.Context, address string, opts ...Option) (*coord.Client, error) {
	c, err := server.Configure(storekit.ToConnect, defaultRoot, opts)
	if err != nil {
		return nil, err
	}
	return storekit.Connect(ctx, pkg, c.Settings, &Store{}, func(ctx context.Context) (*Store, error) {
		return openAt(ctx, address, c)
	})
}

// New returns a driver on a client that the caller has made, and closes. Any client will do, except one of a cluster. ctx
// governs only the check, and nothing is tried again. The driver takes two connections from the client's pool for blocking
// commands, and keeps them. Closing the driver leaves the client open.
func New(ctx context.Context, client rueidis.Client, opts ...Option) (driver.Driver, error) {
	c, err := server.Configure(storekit.ToNew, defaultRoot, opts)
	if err != nil {
		return nil, err
	}
	if c.TLS != nil || c.Cleartext {
		return nil, pkg.Invalid("WithTLS and WithCleartextPassword are for Connect and Open: the client of New says how it connects")
	}
	s, err := openOn(ctx, client, c)
	if err != nil {
		return nil, err
	}
	return c.Driver(s), nil
}
