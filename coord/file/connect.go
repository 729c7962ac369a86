package file

import (
	"context"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
)

// Connect returns a client on a directory. It makes the directory if there is none; the directory above must be there.
// Closing the client closes everything.
func Connect(ctx context.Context, dir string, opts ...Option) (*coord.Client, error) {
	s, err := Open(ctx, dir, opts...)
	if err != nil {
		return nil, err
	}
	c := configure(opts)
	return coord.NewClient(register.New(s, register.WithLogger(c.log)), c.client...), nil
}

// New returns a driver on a directory, for a coord.Client that the caller makes. It opens the directory as Open does, and
// takes at most a second.
func New(dir string, opts ...Option) (driver.Driver, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s, err := Open(ctx, dir, opts...)
	if err != nil {
		return nil, err
	}
	return register.New(s, register.WithLogger(configure(opts).log)), nil
}
