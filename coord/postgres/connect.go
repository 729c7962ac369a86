package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Connect returns a client on a database; see [Open] for the URL. Closing the client closes everything.
func Connect(ctx context.Context, url string, opts ...Option) (*coord.Client, error) {
	c, err := configure(storekit.ToConnect, opts)
	if err != nil {
		return nil, err
	}
	return storekit.Connect(ctx, pkg, c.Settings, &Store{config: c}, func(ctx context.Context) (*Store, error) {
		return openURL(ctx, url, c)
	})
}

// New returns a driver that connects as a pool of the user's does, but with connections of its own. Otherwise work that has
// all of the pool's connections and waits for a lock would wait for ever, and the renewal of a session would be stuck behind
// slow queries. So the settings of the pool's connections do not matter either. The pool stays open.
func New(ctx context.Context, pool *pgxpool.Pool, opts ...Option) (driver.Driver, error) {
	s, err := openLike(ctx, pool, opts...)
	if err != nil {
		return nil, err
	}
	return s.Driver(s), nil
}
