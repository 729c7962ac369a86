package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Open connects to a server and makes the table if it is not there. The URL is what pgx takes:
// postgres://user@host/database, possibly with several hosts, or key=value pairs. The PG… variables of the environment fill
// in the rest. A password is refused (coord.ErrInvalid) unless the server is on this machine or has to show a certificate that
// is checked, as with sslmode=verify-full; see [WithCleartextPassword]. While the server is out of reach Open keeps trying, until ctx ends or, if ctx has no deadline, for 30 s.
func Open(ctx context.Context, url string, opts ...Option) (*Store, error) {
	c, err := configure(storekit.ToOpen, opts)
	if err != nil {
		return nil, err
	}
	return openURL(ctx, url, c)
}

func openURL(ctx context.Context, url string, c config) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, storekit.OneLine(pkg.Invalid("the address: %w", wrongWith(err)))
	}
	return open(ctx, cfg, c)
}

// wrongWith leaves the address out of the library's error. A password in it is masked there if it is written in a usual way only.
func wrongWith(err error) error {
	if at := strings.LastIndex(err.Error(), "`: "); at >= 0 {
		return fmt.Errorf("cannot parse it: %s", err.Error()[at+len("`: "):])
	}
	return err
}

// openLike opens a store that connects as a pool does.
func openLike(ctx context.Context, pool *pgxpool.Pool, opts ...Option) (*Store, error) {
	c, err := configure(storekit.ToNew, opts)
	if err != nil {
		return nil, err
	}
	c.asIs = true
	cfg := pool.Config()
	// These are made for the user's connections, not for ours.
	cfg.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { return true, nil } // also instead of BeforeAcquire
	cfg.AfterRelease, cfg.BeforeClose, cfg.ShouldPing = nil, nil, nil
	return open(ctx, cfg, c)
}

func open(ctx context.Context, cfg *pgxpool.Config, c config) (*Store, error) {
	if err := c.checkPassword(cfg.ConnConfig); err != nil {
		return nil, pkg.Unopened(where(cfg.ConnConfig), err)
	}
	s := &Store{config: c, plain: pgx.QueryExecModeExec, slots: storekit.NewSlots(int(c.conns)), known: storekit.NewKnown[*memory]()}
	s.table, _ = tableOf(c.tableName)
	s.sql = statementsFor(s.table)
	setUp(cfg, c)
	direct, err := c.toListen(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		s.plain = pgx.QueryExecModeSimpleProtocol
	}
	steps := []func(context.Context) error{
		func(ctx context.Context) error { return s.meet(ctx, cfg) },
		func(ctx context.Context) error { return s.fillPool(ctx, cfg) },
		s.remembers,
	}
	if !s.polling {
		steps = append(steps, func(ctx context.Context) error { return s.beginListening(ctx, direct) })
	}
	if err := pkg.TakeSteps(ctx, where(cfg.ConnConfig), s.Log, steps...); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// fillPool makes the pool, as it suits what we have met.
func (s *Store) fillPool(ctx context.Context, cfg *pgxpool.Config) (err error) {
	if s.pooler {
		switch cfg.ConnConfig.DefaultQueryExecMode {
		case pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec:
			// What is prepared on one of the pooler's connections is not known on the next.
			cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		}
		s.Log.Info("postgres: there is a pooler in front of the server: each request is a transaction of its own")
	}
	s.recognizeNew(cfg)
	one := cfg.Copy()
	one.MaxConns = 1
	ctx = context.WithoutCancel(ctx)
	if s.pool, err = pgxpool.NewWithConfig(ctx, cfg); err == nil { // it has dialled nobody yet
		s.aside, err = pgxpool.NewWithConfig(ctx, one)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", coord.ErrInvalid, err)
	}
	return err
}

// recognizeFor is how long it may take to look where a new connection leads.
const recognizeFor = 10 * time.Second

// recognizeNew has the pool look where each connection leads before it gives it out. It goes on with that when whoever wanted it has given up:
// a server that takes longer than anybody waits would be asked for one connection after the other, and never be used.
func (s *Store) recognizeNew(cfg *pgxpool.Config) {
	theirs := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		ctx, cancel := context.WithTimeout(ctx, recognizeFor)
		defer cancel()
		if theirs != nil {
			if err := theirs(ctx, c); err != nil {
				return err
			}
		}
		known, err := s.known.Current()
		if err != nil { // whoever asks for the memory looks himself
			return nil
		}
		if err = s.recognize(ctx, c, known); err == nil {
			c.PgConn().CustomData()[customKey] = known
		} else if !c.IsClosed() { // whoever uses it finds out as well
			err = nil
		}
		return err
	}
}

func (s *Store) remembers(ctx context.Context) error {
	_, err := s.recall(ctx)
	return err
}

// meet makes a first connection, to see who answers and whether the table is there.
func (s *Store) meet(ctx context.Context, cfg *pgxpool.Config) error {
	c, err := dial(ctx, cfg, s.plain)
	if err != nil {
		return s.table.explain(err)
	}
	defer hangUp(c)
	met, err := greet(ctx, c, s.plain)
	switch {
	case errors.Is(err, errStandby):
		return fmt.Errorf("%w: %w", driver.ErrDenied, err)
	case err != nil:
		return s.table.explain(err)
	case met.version < oldestVersion:
		return storekit.Denied("the server's version is %d, and we need %d or newer", met.version/10000, oldestVersion/10000)
	}
	s.pooler = met.pooler
	if !met.fsync {
		s.Log.Warn("postgres: the server runs with fsync=off: after a restart it counts as having forgotten")
	}
	if !met.naming {
		s.Log.Warn("postgres: the server does not tell its identifier to this role, so after a restart it counts as having forgotten: " +
			"GRANT EXECUTE ON FUNCTION pg_control_system() to it")
	}
	if !s.pooler {
		if err := setSession(ctx, c, s.plain); err != nil {
			return s.table.explain(err)
		}
	}
	at, err := s.table.ensure(ctx, c, s.owner)
	if err == nil && at.exposed {
		s.Log.Warn("postgres: others may make tables in the schema, so each request is a transaction that makes sure of ours: "+
			"REVOKE CREATE ON SCHEMA from them", "schema", s.table[0])
	}
	return err
}

// oldestVersion is the first version with gen_random_uuid.
const oldestVersion = 130000
