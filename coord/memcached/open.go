package memcached

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register"
)

// Open connects to the server at host:port, or at the path of a socket. While the server is out of reach Open keeps trying,
// until ctx ends or, if ctx has no deadline, for 30 s.
func Open(ctx context.Context, address string, opts ...Option) (*Store, error) {
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
	} else if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
		return nil, fmt.Errorf("turnwise: memcached: %w: the address %q is neither host:port nor the path of a socket", driver.ErrDenied, address)
	}
	if _, bound := ctx.Deadline(); !bound {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, openFor)
		defer cancel()
	}
	s := &Store{
		config:     c,
		pool:       &pool{network: network, address: address, places: make(chan struct{}, c.conns)},
		turn:       make(chan struct{}, 1),
		pruneAfter: pruneAfter,
	}
	if err := s.insist(ctx); err != nil {
		s.Close()
		if !errors.Is(err, driver.ErrDenied) {
			err = fmt.Errorf("%w: %w", coord.ErrUnavailable, err)
		}
		return nil, fmt.Errorf("turnwise: memcached: %s: %w", address, err)
	}
	if c.evictions {
		s.log.Warn("memcached: if the server was started without -M it throws lines away when it is full, and then two hold at once")
	}
	return s, nil
}

// openFor is how long Open tries if ctx has no deadline.
const openFor = 30 * time.Second

// insist asks for the memory until it is answered, no retry would help, or ctx ends.
func (s *Store) insist(ctx context.Context) error {
	var said string
	for tries := 0; ; tries++ {
		_, err := s.memory(ctx)
		if err == nil || errors.Is(err, driver.ErrDenied) {
			return err
		}
		if text := err.Error(); ctx.Err() == nil && text != said {
			s.log.Warn("memcached: not ready, trying on", "err", err)
			said = text
		}
		if driverkit.Sleep(ctx, driverkit.Jitter(driverkit.Pause(tries))) != nil {
			if !errors.Is(err, ctx.Err()) {
				err = fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			return err
		}
	}
}

// Connect returns a client on a server; see [Open] for the address. Closing the client closes everything.
func Connect(ctx context.Context, address string, opts ...Option) (*coord.Client, error) {
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	if err := coord.CheckStrength((&Store{config: c}).Strength(), c.client...); err != nil {
		return nil, fmt.Errorf("turnwise: memcached: connect: %w", err)
	}
	s, err := Open(ctx, address, opts...)
	if err != nil {
		return nil, err
	}
	return coord.NewClient(s.driver(), s.client...), nil
}

// New returns a driver on a server, for a coord.Client that the caller makes.
func New(ctx context.Context, address string, opts ...Option) (driver.Driver, error) {
	s, err := Open(ctx, address, opts...)
	if err != nil {
		return nil, err
	}
	return s.driver(), nil
}

func (s *Store) driver() driver.Driver {
	return register.New(s, register.WithTTL(s.ttl), register.WithLogger(s.log))
}
