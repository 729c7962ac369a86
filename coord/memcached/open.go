package memcached

import (
	"context"
	"net"
	"strings"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Open connects to the server at host:port, or at the path of a socket. While the server is out of reach Open keeps trying,
// until ctx ends or, if ctx has no deadline, for 30 s.
func Open(ctx context.Context, address string, opts ...Option) (*Store, error) {
	c, err := configure(storekit.ToOpen, opts)
	if err != nil {
		return nil, err
	}
	return open(ctx, address, c)
}

func open(ctx context.Context, address string, c config) (*Store, error) {
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
	} else if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
		return nil, pkg.Invalid("the address %q is neither host:port nor the path of a socket", address)
	} else if err := driverkit.CheckAddress(address); err != nil {
		return nil, pkg.Invalid("%w", err)
	}
	s := &Store{
		config:     c,
		known:      storekit.NewKnown[*memory](),
		pruneAfter: pruneAfter,
	}
	s.pool = s.newPool(network, address)
	if err := pkg.TakeSteps(ctx, address, s.Log, s.remembers); err != nil {
		s.Close()
		return nil, err
	}
	if c.evictions {
		s.Log.Warn("memcached: if the server was started without -M it throws lines away when it is full, and then two hold at once")
	}
	return s, nil
}

func (s *Store) remembers(ctx context.Context) error {
	_, err := s.recall(ctx)
	return err
}
