package mysql

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

// Each of them is a mistake that no retry mends: one line says what to do, at once.
func TestWhatOpenRefuses(t *testing.T) {
	m := servers.MariaDB(t, servers.Password("secret"), servers.Fsync()).Member(0)
	replica := servers.MariaDB(t, servers.Password("secret"), servers.Fsync(), servers.Config("read_only=1")).Member(0)
	logging := servers.MariaDB(t, servers.Password("secret"), servers.Fsync(), servers.Config("log_bin=log", "binlog_format=STATEMENT")).Member(0)
	query(t, m.URL(), `CREATE USER poor@'127.0.0.1' IDENTIFIED BY 'poor'`, `CREATE TABLE alien (id int)`, `CREATE VIEW seen AS SELECT 1`,
		Schema("newer"), `UPDATE newer SET value = 'turnwise register, layout 2, x' WHERE name = ''`,
		Schema("readable"), `GRANT SELECT ON turnwise.readable TO poor@'127.0.0.1'`)
	otherEngines := !isMySQL(t, m)
	if otherEngines { // MySQL has none that takes the table
		query(t, m.URL(), strings.Replace(Schema("old"), "InnoDB, ROW_FORMAT = DYNAMIC", "Aria", 1))
	}
	for name, c := range map[string]struct {
		dsn  string
		opts []Option
		says string
	}{
		"no DSN":           {"secret at host", nil, "write user:password@tcp(host:3306)/database"},
		"another's URL":    {strings.Replace(m.URL(), "mysql://", "postgres://", 1), nil, "mysql://user:password@host:3306/database"},
		"a URL's setting":  {m.URL() + "?tls=maybe", nil, "behind the ?"},
		"a table's name":   {m.URL(), []Option{WithTable("a.b.c")}, "database.table"},
		"a wrong password": {storecheck.As(t, m.URL(), "root", "wrong", ""), nil, "password is wrong"},
		"no such user":     {storecheck.As(t, m.URL(), "nobody", "x", ""), nil, "password is wrong"},
		"no such database": {storecheck.As(t, m.URL(), "", "", "nowhere"), nil, "CREATE DATABASE"},
		"no database":      {storecheck.As(t, m.URL(), "", "", "/"), nil, "name a database"},
		"may not create":   {storecheck.As(t, m.URL(), "poor", "poor", ""), []Option{WithTable("turnwise.made")}, `mysql.Schema("turnwise.made")`},
		"may only read":    {storecheck.As(t, m.URL(), "poor", "poor", ""), []Option{WithTable("readable")}, "GRANT SELECT, INSERT, UPDATE, DELETE"},
		"another's table":  {m.URL(), []Option{WithTable("alien")}, "another layout"},
		"a newer layout":   {m.URL(), []Option{WithTable("newer")}, "another version of turnwise"},
		"a view":           {m.URL(), []Option{WithTable("seen")}, "no plain table"},
		"another engine":   {m.URL(), []Option{WithTable("old")}, "ALTER TABLE `old` ENGINE = InnoDB"},
		"a replica":        {replica.URL(), nil, "name the primary"},
		"a log it bursts":  {logging.URL(), nil, "ROW or MIXED"},
		"no TLS there":     {m.URL() + "?tls=true", nil, "TLS"},
	} {
		if name == "another engine" && !otherEngines {
			continue
		}
		class := driver.ErrDenied
		switch name {
		case "no DSN", "another's URL", "a URL's setting", "a table's name", "no database":
			class = coord.ErrInvalid
		case "no such database":
			class = driver.ErrMissing
		}
		t.Run(name, func(t *testing.T) {
			_, err := Open(within(t, 20*time.Second), c.dsn, append(c.opts, WithLogger(logger(t)))...)
			storecheck.Refused(t, err, class, c.says)
		})
	}
}

// Servers that this machine does not have are imitated by what they would say of themselves.
func TestServersThatWouldNotDo(t *testing.T) {
	good := map[string]string{"version": "8.0.36", "innodb_flush_log_at_trx_commit": "1", "read_only": "OFF", "log_bin": "ON",
		"sync_binlog": "1", "binlog_format": "ROW", "server_uuid": "u"}
	for name, c := range map[string]struct {
		setting, value, says string
	}{
		"none of it":         {"version", "8.0.36", ""},
		"MariaDB":            {"version", "5.5.5-10.6.4-MariaDB-log", ""},
		"MySQL 9":            {"version", "9.1.0", ""},
		"an old MySQL":       {"version", "5.7.44-log", "MySQL 8.0 or newer"},
		"an old MariaDB":     {"version", "10.5.23-MariaDB", "MariaDB 10.6 or newer"},
		"Galera":             {"wsrep_on", "ON", "Galera"},
		"several primaries":  {"group_replication_group_name", "g", "single_primary"},
		"a secondary":        {"super_read_only", "ON", "name the primary"},
		"a reader":           {"innodb_read_only", "ON", "name the primary"},
		"read-only for some": {"read_only", "NO_LOCK", "name the primary"},
	} {
		t.Run(name, func(t *testing.T) {
			v := &server{values: map[string]string{}}
			for key, value := range good {
				v.values[key] = value
			}
			v.values[c.setting] = c.value
			v.identify()
			if err := v.check(); c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("it says %v, want %q", err, c.says)
			}
		})
	}
}

func TestNobodyThereIsSaidInTime(t *testing.T) {
	storecheck.NobodyThere(t, "", func(ctx context.Context, address string) error {
		_, err := Open(ctx, "u@tcp("+address+")/d")
		return err
	})
}

// Somebody who may do so makes the table, and a user with the least rights uses it.
func TestATableMadeByHandNeedsFewRights(t *testing.T) {
	m := durable(t)
	query(t, m.URL(), `CREATE USER poor@'127.0.0.1'`, `CREATE DATABASE locks`, Schema("locks.Of us"), Schema("locks.Of us"),
		"GRANT SELECT, INSERT, UPDATE, DELETE ON locks.`Of us` TO poor@'127.0.0.1'")
	s := opened(t, storecheck.As(t, m.URL(), "poor", "", "/"), WithTable("locks.Of us"))
	it := put(t, s, register.Item{Key: "k"}, "1")
	it = put(t, s, it, "2")
	remove(t, s, it)

	query(t, m.URL(), "REVOKE INSERT ON locks.`Of us` FROM poor@'127.0.0.1'")
	_, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: "k", Next: register.NewVersion()})
	if !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "GRANT") {
		t.Errorf("a swap that is not allowed: %v", err)
	}
	query(t, m.URL(), "DROP TABLE locks.`Of us`")
	s = opened(t, m.URL(), WithTable("turnwise.gone"))
	query(t, m.URL(), "DROP TABLE turnwise.gone")
	if _, err = s.Read(within(t, 10*time.Second), "k"); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "dropped") {
		t.Errorf("a table that is gone: %v", err)
	}
}

func TestManyMayMakeTheTableAtOnce(t *testing.T) {
	m := sharedServer(t)
	table := freshTable()
	storecheck.ManyOpen(t, func(ctx context.Context) (register.Store, error) {
		return Open(ctx, m.URL(), WithTable(table))
	})
}

// An administrator may give a user so many connections, statements or changes in an hour, and no more. That is no matter of how many
// connections the server has.
func TestWhatAUserMayNotExceedIsSaid(t *testing.T) {
	m := sharedServer(t)
	for limit, name := range map[string]string{"MAX_USER_CONNECTIONS 1": "max_user_connections", "MAX_CONNECTIONS_PER_HOUR 1": "max_connections_per_hour",
		"MAX_UPDATES_PER_HOUR 5": "max_updates_per_hour"} {
		t.Run(name, func(t *testing.T) {
			user, table := freshTable(), freshTable()
			query(t, m.URL(), `CREATE USER `+user+`@'127.0.0.1' WITH `+limit, `GRANT ALL ON turnwise.* TO `+user+`@'127.0.0.1'`, Schema(table))
			url := storecheck.As(t, m.URL(), user, "", "")
			dialed(t, url) // it stays
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			s, err := Open(ctx, url, WithTable(table))
			if err == nil {
				defer s.Close()
			}
			for it := (register.Item{Key: "k"}); err == nil && ctx.Err() == nil; {
				it, err = s.Swap(ctx, register.Swap{Key: "k", Old: it.Version, Next: register.NewVersion()})
			}
			if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "SHOW CREATE USER") {
				t.Errorf("%v", err)
			}
		})
	}
}
