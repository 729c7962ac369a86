package mysql

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Open connects to a server and makes the table if it is not there. The DSN is what go-sql-driver/mysql takes,
//
//	user:password@tcp(host:3306)/database?tls=true
//
// or a URL: mysql://user:password@host:3306/database?tls=true. A password is refused (coord.ErrInvalid) unless the server is on
// this machine or has to show a certificate that is checked, as with tls=true; see [WithCleartextPassword]. While the server is out of reach Open keeps trying, until ctx
// ends or, if ctx has no deadline, for 30 s.
func Open(ctx context.Context, dsn string, opts ...Option) (*Store, error) {
	c, err := configure(storekit.ToOpen, opts)
	if err != nil {
		return nil, err
	}
	return open(ctx, dsn, c)
}

func open(ctx context.Context, dsn string, c config) (*Store, error) {
	cfg, err := parse(dsn, c.Log)
	if err != nil {
		return nil, err
	}
	if err := c.checkPassword(cfg); err != nil {
		return nil, err
	}
	vet(cfg)
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, pkg.Invalid("%w", err)
	}
	s := &Store{config: c, known: storekit.NewKnown[*memory]()}
	s.table, _ = tableOf(c.tableName)
	s.sql = statementsFor(s.table)
	s.pool = s.newPool(connector)
	address := fmt.Sprintf("%s, database %s", cfg.Addr, cfg.DBName)
	if err := pkg.TakeSteps(ctx, address, s.Log, s.meet, s.remembers); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// meet makes a first connection, to see who answers and whether the table is there.
func (s *Store) meet(ctx context.Context) error {
	err := s.pool.Do(ctx, func(c *conn) error {
		v, err := introduce(ctx, c)
		if err != nil {
			return err
		}
		if err := v.check(); errors.Is(err, errReadOnly) {
			return fmt.Errorf("%w: %w", driver.ErrDenied, err)
		} else if err != nil {
			return err
		}
		if why := v.forgetful(); why != "" {
			s.forgetful = true
			s.Log.Warn("mysql: a crash may take what the server has answered: after each restart it counts as having forgotten", "since", why)
		}
		return s.table.ensure(ctx, c)
	})
	return s.table.explain(err)
}

func (s *Store) remembers(ctx context.Context) error {
	_, err := s.recall(ctx)
	return err
}
