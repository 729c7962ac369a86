package quorum

import (
	"context"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/redis"
	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Connect returns a client on several Redis or Valkey, as [Open] takes them. Closing the client closes everything.
func Connect(ctx context.Context, addresses []string, opts ...redis.Option) (*coord.Client, error) {
	c, err := server.Configure(storekit.ToConnect, defaultRoot, opts)
	if err != nil {
		return nil, err
	}
	return storekit.Connect(ctx, pkg, c.Settings, &Store{}, func(ctx context.Context) (*Store, error) {
		return openAll(ctx, addresses, c)
	})
}
