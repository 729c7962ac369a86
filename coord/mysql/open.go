package mysql

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register"
)

// Store keeps registers as rows of one table. It is a [register.Store].
type Store struct {
	config
	table   table
	sql     statements
	pool    *pool
	largest atomic.Int64 // value, in bytes

	forgetful bool // a crash may take what the server has answered

	known atomic.Pointer[memory] // nil once the server may have forgotten, until Memory is called
	turn  chan struct{}          // held by whoever uses what Memory remembers:
	last  *memory
	since time.Time // when another memory was noticed; zero: never
}

var _ register.Store = (*Store)(nil)

// Open connects to a server and makes the table if it is not there. The DSN is what go-sql-driver/mysql takes,
//
//	user:password@tcp(host:3306)/database?tls=true
//
// or a URL: mysql://user:password@host:3306/database?tls=true. While the server is out of reach Open keeps trying, until ctx
// ends or, if ctx has no deadline, for 30 s.
func Open(ctx context.Context, dsn string, opts ...Option) (*Store, error) {
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	cfg, err := parse(dsn, c.log)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("turnwise: mysql: %w: %w", driver.ErrDenied, err)
	}
	if _, bound := ctx.Deadline(); !bound {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, openFor)
		defer cancel()
	}
	s := &Store{config: c, turn: make(chan struct{}, 1), pool: newPool(c.conns, connector)}
	s.table, _ = tableOf(c.tableName)
	s.sql = statementsFor(s.table)
	if err := s.open(ctx); err != nil {
		s.Close()
		if !errors.Is(err, driver.ErrDenied) {
			err = fmt.Errorf("%w: %w", coord.ErrUnavailable, err)
		}
		return nil, &oneLine{fmt.Errorf("turnwise: mysql: %s, database %s: %w", cfg.Addr, cfg.DBName, err)}
	}
	return s, nil
}

// openFor is how long Open tries if ctx has no deadline.
const openFor = 30 * time.Second

func (s *Store) open(ctx context.Context) error {
	if err := s.insist(ctx, func() error { return s.meet(ctx) }); err != nil {
		return err
	}
	return s.insist(ctx, func() error { _, err := s.memory(ctx); return err })
}

// meet makes a first connection, to see who answers and whether the table is there.
func (s *Store) meet(ctx context.Context) error {
	c, err := s.pool.get(ctx)
	if err != nil {
		return s.explain(err)
	}
	defer s.pool.put(c)
	v, err := introduce(ctx, c)
	if err != nil {
		return s.explain(err)
	}
	if err := v.check(); errors.Is(err, errReadOnly) {
		return fmt.Errorf("%w: %w", driver.ErrDenied, err)
	} else if err != nil {
		return err
	}
	if why := v.forgetful(); why != "" {
		s.forgetful = true
		s.log.Warn("mysql: a crash may take what the server has answered: after each restart it counts as having forgotten", "since", why)
	}
	return s.prepareTable(ctx, c)
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
			s.log.Warn("mysql: not ready, trying on", "err", &oneLine{err})
			said = text
		}
		if driverkit.Sleep(ctx, driverkit.Jitter(driverkit.Pause(tries))) != nil {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// with runs do on a connection to the server that we know.
func (s *Store) with(ctx context.Context, do func(c *conn, known *memory) error) error {
	known := s.known.Load()
	if known == nil {
		return register.ErrForgot
	}
	c, err := s.pool.get(ctx)
	if err != nil {
		return err
	}
	defer s.pool.put(c)
	if c.known != known {
		if err := s.recognize(ctx, c, known); err != nil {
			return err
		}
	}
	err = do(c, known)
	if err != nil && !c.isValid() && !errors.Is(ctx.Err(), context.Canceled) {
		s.pool.drop() // a server that has gone, or does not answer, takes all of them along
	}
	return err
}

// Listen returns ErrMute: the server has nothing to tell with.
func (s *Store) Listen(context.Context, string, func([]byte)) (stop func(), err error) {
	return nil, register.ErrMute
}

// Strength returns what the server promises with the settings that it had when the store was opened.
func (s *Store) Strength() driver.Strength {
	label := strength
	if s.forgetful {
		label.Restart = driver.ForgetsOpenly
	}
	return label
}

// strength is that of a server that writes to disk before it answers, as it does by default.
var strength = driver.Strength{
	Restart:  driver.Remembers,
	Failover: driver.ForgetsOpenly,
	Tokens:   driver.RiseWhileRemembered,
	WakeUp:   driver.Polled,
}

// Close closes the connections.
func (s *Store) Close() error {
	s.pool.close()
	return nil
}
