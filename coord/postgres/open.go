package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register"
)

// Store keeps registers as rows of one table. It is a [register.Store].
type Store struct {
	config
	table pgx.Identifier
	sql   statements

	pool     *pgxpool.Pool
	pooler   bool              // something between us and the server hands our statements to any connection it has
	plain    pgx.QueryExecMode // for statements that are rare, and before we know whether there is a pooler
	listener *listener         // nil if the store tells of nothing

	known atomic.Pointer[memory] // nil once the server may have forgotten, until Memory is called
	turn  chan struct{}          // held by whoever uses what Memory remembers:
	last  *memory
	since time.Time // when another memory was noticed; zero: never

	closed atomic.Bool
}

var _ register.Store = (*Store)(nil)

// Open connects to a server and makes the table if it is not there. The URL is what pgx takes:
// postgres://user@host/database, possibly with several hosts, or key=value pairs. The PG… variables of the environment fill
// in the rest. While the server is out of reach Open keeps trying, until ctx ends or, if ctx has no deadline, for 30 s.
func Open(ctx context.Context, url string, opts ...Option) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("turnwise: postgres: %w: %w", driver.ErrDenied, err)
	}
	return open(ctx, cfg, opts)
}

// NewFromPool makes a store that connects as a pool of the user's does, but with connections of its own. Otherwise work that
// has all of the pool's connections and waits for a lock would wait for ever, and the renewal of a session would be stuck
// behind slow queries. So the settings of the pool's connections do not matter either. The pool stays open.
func NewFromPool(ctx context.Context, pool *pgxpool.Pool, opts ...Option) (*Store, error) {
	cfg := pool.Config()
	// These are made for the user's connections, not for ours.
	cfg.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { return true, nil } // also instead of BeforeAcquire
	cfg.AfterRelease, cfg.BeforeClose, cfg.ShouldPing = nil, nil, nil
	return open(ctx, cfg, opts)
}

func open(ctx context.Context, cfg *pgxpool.Config, opts []Option) (*Store, error) {
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	if _, bound := ctx.Deadline(); !bound {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, openFor)
		defer cancel()
	}
	s := &Store{config: c, plain: pgx.QueryExecModeExec, turn: make(chan struct{}, 1)}
	s.table, _ = tableOf(c.table)
	s.sql = statementsFor(s.table)
	setUp(cfg, c)
	if cfg.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		s.plain = pgx.QueryExecModeSimpleProtocol
	}
	if err := s.open(ctx, cfg); err != nil {
		s.Close()
		if !errors.Is(err, driver.ErrDenied) {
			err = fmt.Errorf("%w: %w", coord.ErrUnavailable, err)
		}
		return nil, &oneLine{fmt.Errorf("turnwise: postgres: %s: %w", where(cfg.ConnConfig), err)}
	}
	return s, nil
}

// openFor is how long Open tries if ctx has no deadline.
const openFor = 30 * time.Second

// setUp sets what we need and the user has left open.
func setUp(cfg *pgxpool.Config, c config) {
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = c.conns, 0, 0
	cfg.PingTimeout = time.Second
	cc := cfg.ConnConfig
	if cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = 3 * time.Second
	}
	if _, set := cc.RuntimeParams["application_name"]; !set {
		cc.RuntimeParams["application_name"] = "turnwise"
	}
	for _, other := range cc.Fallbacks {
		if cc.ValidateConnect == nil && (other.Host != cc.Host || other.Port != cc.Port) {
			cc.ValidateConnect = primary // of several hosts, the one that takes writes
		}
	}
}

func where(c *pgx.ConnConfig) string {
	return fmt.Sprintf("%s:%d, database %s", c.Host, c.Port, c.Database)
}

func (s *Store) open(ctx context.Context, cfg *pgxpool.Config) error {
	if err := s.insist(ctx, func() error { return s.meet(ctx, cfg) }); err != nil {
		return err
	}
	if s.pooler {
		switch cfg.ConnConfig.DefaultQueryExecMode {
		case pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec:
			// What is prepared on one of the pooler's connections is not known on the next.
			cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		}
		s.log.Info("postgres: there is a pooler in front of the server: each request is a transaction of its own")
	}
	var err error
	if s.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), cfg); err != nil {
		return err
	}
	if err := s.insist(ctx, func() error { _, err := s.memory(ctx); return err }); err != nil {
		return err
	}
	if s.polling {
		return nil
	}
	return s.insist(ctx, func() error { return s.beginListening(ctx, cfg) })
}

// meet makes a first connection, to see who answers and whether the table is there.
func (s *Store) meet(ctx context.Context, cfg *pgxpool.Config) error {
	c, err := dial(ctx, cfg)
	if err != nil {
		return s.explain(err)
	}
	defer hangUp(c)
	met, err := s.greet(ctx, c)
	switch {
	case errors.Is(err, errStandby):
		return fmt.Errorf("%w: %w", driver.ErrDenied, err)
	case err != nil:
		return err
	case met.version < oldest:
		return denied("the server's version is %d, and we need %d or newer", met.version/10000, oldest/10000)
	}
	s.pooler = met.pooler
	if !met.fsync {
		s.log.Warn("postgres: the server runs with fsync=off: after a restart it counts as having forgotten")
	}
	if !s.pooler {
		if err := s.prepare(ctx, c); err != nil {
			return err
		}
	}
	return s.prepareTable(ctx, c)
}

// oldest is the first version with gen_random_uuid.
const oldest = 130000

// dial makes a connection as the pool would.
func dial(ctx context.Context, cfg *pgxpool.Config) (*pgx.Conn, error) {
	cc := cfg.ConnConfig.Copy()
	if cfg.BeforeConnect != nil {
		if err := cfg.BeforeConnect(ctx, cc); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, cc)
}

// insist tries until it works, no retry would help, or ctx ends.
func (s *Store) insist(ctx context.Context, do func() error) error {
	var said string
	for tries := 0; ; tries++ {
		err := do()
		if err == nil || errors.Is(err, driver.ErrDenied) {
			return err
		}
		if ctx.Err() != nil {
			if !errors.Is(err, ctx.Err()) {
				err = fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			return err
		}
		if text := err.Error(); text != said {
			s.log.Warn("postgres: not ready, trying on", "err", &oneLine{err})
			said = text
		}
		if driverkit.Sleep(ctx, driverkit.Jitter(driverkit.Pause(tries))) != nil {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

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
	if s.pool != nil {
		s.pool.Close()
	}
	return nil
}

func (s *Store) name() string { return strings.Join(s.table, ".") }
