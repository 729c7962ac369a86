package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
)

// Connect returns a client on a database; see [Open] for the URL. Closing the client closes everything.
func Connect(ctx context.Context, url string, opts ...Option) (*coord.Client, error) {
	s, err := Open(ctx, url, opts...)
	if err != nil {
		return nil, err
	}
	return coord.NewClient(s.driver(), s.client...), nil
}

// New returns a driver that connects as a pool of the user's does, with connections of its own; see [NewFromPool].
func New(ctx context.Context, pool *pgxpool.Pool, opts ...Option) (driver.Driver, error) {
	s, err := NewFromPool(ctx, pool, opts...)
	if err != nil {
		return nil, err
	}
	return s.driver(), nil
}

func (s *Store) driver() driver.Driver {
	return register.New(s, register.WithTTL(s.ttl), register.WithLogger(s.log))
}
