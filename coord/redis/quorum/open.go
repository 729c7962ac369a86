package quorum

import (
	"context"
	"encoding/hex"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/redis"
	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

const defaultRoot = "turnwise-quorum:"

// Open returns a store in several Redis or Valkey servers, as a rule three or five, at addresses as
// [github.com/turnwise/turnwise/coord/redis.Open] takes them. The servers know nothing of one another: no replicas, no
// sentinels, no cluster. All processes must name the same ones.
//
// The first process to open them founds the group; for that, all servers must be there and empty. Later more than half of the
// group's servers must be there. A server that has forgotten something does not count until it is healed; see [Store.Heal]. One
// that is named and is not of the group does not count either; see [Store.Reform]. If too few are there, Open keeps trying until
// ctx ends or, if ctx has no deadline, for 30 s.
func Open(ctx context.Context, addresses []string, opts ...redis.Option) (*Store, error) {
	c, err := server.Configure(storekit.ToOpen, defaultRoot, opts)
	if err != nil {
		return nil, err
	}
	return openAll(ctx, addresses, c)
}

func openAll(ctx context.Context, addresses []string, c server.Config) (*Store, error) {
	if len(addresses) < minServers || len(addresses) > maxServers {
		return nil, pkg.Invalid("a quorum of %d: take three or five, so that one or two may be lost", len(addresses))
	}
	q := newStore(c)
	if err := q.open(ctx, addresses, c); err != nil {
		q.Close()
		return nil, err
	}
	q.life.Go(q.collect)
	return q, nil
}

func (q *Store) open(ctx context.Context, addresses []string, c server.Config) error {
	ctx, cancel := driverkit.BoundConnect(ctx)
	defer cancel()
	for _, address := range addresses {
		at, err := server.Parse(address, c)
		if err != nil {
			return err
		}
		a, err := newAcceptor(ctx, at)
		if err != nil {
			return err
		}
		q.all = append(q.all, a)
	}
	return pkg.TakeSteps(ctx, "a quorum", c.Log, func(ctx context.Context) error { return server.AtOpening(q.assemble(ctx)) })
}

func newStore(c server.Config) *Store {
	me := register.NewVersion()
	return &Store{
		root:      c.Root,
		log:       c.Log,
		me:        hex.EncodeToString(me[:]),
		life:      driverkit.NewLife(context.Background()),
		ledger:    newLedger(),
		following: make(chan struct{}, 1),
	}
}
