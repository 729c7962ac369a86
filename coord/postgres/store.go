package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Store keeps registers as rows of one table. It is a [register.Store].
type Store struct {
	config
	table table
	sql   statements

	pool     *pgxpool.Pool
	aside    *pgxpool.Pool     // of one connection, on which sessions are renewed: see storekit.NewPool
	slots    *storekit.Slots   // of the pool, which has one connection more
	pooler   bool              // something between us and the server hands our statements to any connection it has
	plain    pgx.QueryExecMode // for statements that are rare, and before we know whether there is a pooler
	listener *listener         // nil if the store tells of nothing

	known  *storekit.Known[*memory]
	server storekit.Run
	quiet  sync.Once // a swap has gone without its notes, which is said once
	closed atomic.Bool
}

var _ register.Reconnecting = (*Store)(nil)

// RunsSince tells when a connection first led to the run of the server that was met last.
func (s *Store) RunsSince() time.Time { return s.server.Since() }

// Strength returns what PostgreSQL promises.
func (s *Store) Strength() driver.Strength {
	return driver.Strength{Restart: driver.Remembers, Failover: driver.ForgetsOpenly, WakeUp: driver.Told}
}

// Close ends the listening and closes the connections.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if s.listener != nil {
		s.listener.close()
	}
	for _, p := range []*pgxpool.Pool{s.pool, s.aside} {
		if p != nil {
			p.Close()
		}
	}
	return nil
}

// customKey is where a connection says which memory it was seen to have.
const customKey = "turnwise memory"

// with runs do on a connection to the server that we know. A connection is looked at when it is new, and again when the
// memory has changed.
func (s *Store) with(ctx context.Context, do func(c *pgx.Conn, known *memory) error) error {
	known, err := s.known.Current()
	if err != nil {
		return err
	}
	free, renews, err := s.slots.Take(ctx)
	if err != nil {
		return err
	}
	defer free()
	pc, err := s.acquire(ctx, renews)
	if err != nil {
		return err
	}
	defer pc.Release()
	c := pc.Conn()
	if seen := c.PgConn().CustomData(); seen[customKey] != known {
		if err := s.recognize(ctx, c, known); err != nil {
			return err
		}
		seen[customKey] = known
	}
	err = do(c, known)
	switch {
	case isState(err, notTheOne):
		hangUp(c) // the pooler has taken us elsewhere: the next try finds out
		s.pool.Reset()
	case err != nil && c.IsClosed() && ctx.Err() == nil:
		s.pool.Reset() // a server that has gone takes all of them along
		err = &cut{err}
	}
	return err
}

// acquire returns a connection. That for renewals is made when it is needed first; if it is not to be had soon, one of the others will do.
func (s *Store) acquire(ctx context.Context, renews bool) (*pgxpool.Conn, error) {
	if renews {
		within, cancel := storekit.HalfOf(ctx)
		defer cancel()
		if pc, err := s.aside.Acquire(within); err == nil {
			return pc, nil
		}
	}
	return s.pool.Acquire(ctx)
}

// query repeats what changes nothing, if others were in its way or it was sent on a connection that had been cut.
func (s *Store) query(ctx context.Context, do func(c *pgx.Conn, known *memory) error) error {
	return storekit.Query(ctx, func() error { return s.with(ctx, do) }, undone, isCut)
}

// run sends one statement in the memory that we know, and returns how many rows it has changed or found.
func (s *Store) run(ctx context.Context, c *pgx.Conn, known *memory, sql string, args []any, scan func(pgx.Rows) error) (int64, error) {
	if s.pooler || known.exposed {
		g := guard{table: s.table, oid: known.oid, timeline: known.timeline}
		if s.pooler { // it may lead elsewhere at any time
			g.started = known.started.Load()
		}
		return g.run(ctx, c, sql, args, scan)
	}
	return run(ctx, c, sql, args, scan)
}
