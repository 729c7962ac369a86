//go:build !turnwise_no_mysql

package backend

import (
	"cmp"
	"context"
	"errors"

	driver "github.com/go-sql-driver/mysql"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mysql"
)

func init() { services["mysql"] = mysqls }

func mysqls(t *target) (connect, error) {
	table := t.params.text("table")
	host, err := t.address(3306)
	access, accessErr := t.access()
	if err := cmp.Or(err, accessErr, t.withLongest()); err != nil {
		return nil, err
	}
	if t.name() == "" {
		return nil, errors.New("it names no database: write mysql://user@host/database")
	}
	return func(ctx context.Context, c config) (*coord.Client, error) {
		secret, tls, err := access.read()
		if err != nil {
			return nil, err
		}
		cfg := driver.NewConfig()
		cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.DBName = t.user, secret, "tcp", host, t.name()
		if tls != nil {
			// The library knows configurations by name only.
			cfg.TLSConfig = "turnwise " + t.shown
			if err := driver.RegisterTLSConfig(cfg.TLSConfig, tls); err != nil {
				return nil, err
			}
		}
		opts := []mysql.Option{mysql.WithLogger(c.log), mysql.WithClient(c.client...)}
		if c.ttl > 0 {
			opts = append(opts, mysql.WithTTL(c.ttl))
		}
		if c.longest > 0 {
			opts = append(opts, mysql.WithLongestTTL(c.longest))
		}
		if table != "" {
			opts = append(opts, mysql.WithTable(table))
		}
		if access.cleartext {
			opts = append(opts, mysql.WithCleartextPassword())
		}
		return mysql.Connect(ctx, cfg.FormatDSN(), opts...)
	}, nil
}
