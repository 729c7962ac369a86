package mysql

import (
	"context"
	"fmt"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
)

// Connect returns a client on a database; see [Open] for the DSN. Closing the client closes everything.
func Connect(ctx context.Context, dsn string, opts ...Option) (*coord.Client, error) {
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	if err := coord.CheckStrength(strength, c.client...); err != nil {
		return nil, fmt.Errorf("turnwise: mysql: connect: %w", err)
	}
	s, err := Open(ctx, dsn, opts...)
	if err != nil {
		return nil, err
	}
	if err := coord.CheckStrength(s.Strength(), c.client...); err != nil { // now that the settings are known
		s.Close()
		return nil, fmt.Errorf("turnwise: mysql: connect: %w", err)
	}
	return coord.NewClient(s.driver(), s.client...), nil
}

// New returns a driver on a database, for a coord.Client that the caller makes.
func New(ctx context.Context, dsn string, opts ...Option) (driver.Driver, error) {
	s, err := Open(ctx, dsn, opts...)
	if err != nil {
		return nil, err
	}
	return s.driver(), nil
}

func (s *Store) driver() driver.Driver {
	return register.New(s, register.WithTTL(s.ttl), register.WithLogger(s.log))
}
