package redis

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Open returns a store in the Redis or Valkey at an address: host:port, or a URL as in
//
//	redis://user:password@host:6379/0
//	rediss://host:6379                                          over TLS
//	unix:///run/redis/redis.sock
//	redis://sentinel:26379?addr=other:26379&master_set=orders   the master that sentinels name
//
// Open checks that the server can do all that is needed, and that the user may. While the server is out of reach it keeps
// trying, until ctx ends or, if ctx has no deadline, for 30 s. ctx governs no more than that. Close ends the connections.
//
// A password is sent as it is. So it is refused, unless the address is on this machine or the server has to show a certificate
// that is checked; see [WithCleartextPassword].
func Open(ctx context.Context, address string, opts ...Option) (*Store, error) {
	c, err := server.Configure(storekit.ToOpen, defaultRoot, opts)
	if err != nil {
		return nil, err
	}
	return openAt(ctx, address, c)
}

func openAt(ctx context.Context, address string, c config) (*Store, error) {
	at, err := server.Parse(address, c)
	if err != nil {
		return nil, err
	}
	var s *Store
	if err := pkg.TakeSteps(ctx, at.Name, c.Log, func(ctx context.Context) (err error) {
		s, err = open(ctx, at)
		return server.AtOpening(err)
	}); err != nil {
		return nil, err
	}
	return s, nil
}

func open(ctx context.Context, at server.Address) (*Store, error) {
	one, err := at.Dial(ctx)
	if err != nil {
		return nil, err
	}
	s := newStore(one)
	if err := s.check(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// openOn opens a store on the caller's client.
func openOn(ctx context.Context, client rueidis.Client, c config) (*Store, error) {
	s := newStore(server.On(client, c))
	var err error
	if client.Mode() == rueidis.ClientModeCluster {
		err = server.ErrCluster
	} else {
		err = s.check(ctx)
	}
	if err != nil {
		go s.Close() // the library may still be connecting
		return nil, fmt.Errorf("turnwise: redis: open: %w", err)
	}
	return s, nil
}

func newStore(one *server.Server) *Store {
	return &Store{server: one, known: storekit.NewKnown[server.Memory]()}
}

// check finds out whether the server can and may do all that is needed, and what it remembers.
func (s *Store) check(ctx context.Context) error {
	if err := s.server.Check(ctx); err != nil {
		return err
	}
	_, err := s.recall(ctx)
	return err
}
