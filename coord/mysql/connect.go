package mysql

import (
	"context"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Connect returns a client on a database; see [Open] for the DSN. Closing the client closes everything.
func Connect(ctx context.Context, dsn string, opts ...Option) (*coord.Client, error) {
	c, err := configure(storekit.ToConnect, opts)
	if err != nil {
		return nil, err
	}
	return storekit.Connect(ctx, pkg, c.Settings, &Store{config: c}, func(ctx context.Context) (*Store, error) {
		return open(ctx, dsn, c)
	})
}
