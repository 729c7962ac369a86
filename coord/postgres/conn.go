package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// setUp sets what we need and the user has left open.
func setUp(cfg *pgxpool.Config, c config) {
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = c.conns+1, 0, 0
	cfg.PingTimeout = time.Second
	cc := cfg.ConnConfig
	vet(cc)
	if cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = 3 * time.Second
	}
	if _, set := cc.RuntimeParams["application_name"]; !set {
		cc.RuntimeParams["application_name"] = "turnwise"
	}
	cc.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) {} // the library would keep all that a server tells
	several := cc.ValidateConnect != nil && !c.asIs                   // by the URL's target_session_attrs
	for _, other := range cc.Fallbacks {
		several = several || cc.ValidateConnect == nil && (other.Host != cc.Host || other.Port != cc.Port)
	}
	if several {
		cc.ValidateConnect = refuseStandby // of several hosts, the one that takes writes
	}
}

// checkPassword looks where the library may send a password, wherever it comes from: by sslmode=prefer, which is the default,
// also to anybody who says that he has no TLS.
func (c *config) checkPassword(cc *pgx.ConnConfig) error {
	if cc.Password == "" || c.asIs {
		return nil
	}
	ways := append([]*pgconn.FallbackConfig{{Host: cc.Host, Port: cc.Port, TLSConfig: cc.TLSConfig}}, cc.Fallbacks...)
	for _, w := range ways {
		network, address := pgconn.NetworkAddress(w.Host, w.Port)
		err := driverkit.CheckPassword(address, w.TLSConfig, c.cleartext, c.Log)
		switch {
		case err != nil && network == "unix":
			return fmt.Errorf("%w: %w", coord.ErrInvalid, err)
		case err != nil:
			return fmt.Errorf("%w: %w; for TLS say sslmode=verify-full", coord.ErrInvalid, err)
		}
	}
	return nil
}

// refuseStandby has the library go on to the next of several hosts. The library's own way to ask goes by the search_path, and
// panics at an answer without rows.
func refuseStandby(ctx context.Context, c *pgconn.PgConn) error {
	answer, said := c.Exec(ctx, `SELECT pg_catalog.pg_is_in_recovery()`), ""
	for answer.NextResult() {
		for row := answer.ResultReader(); row.NextRow(); {
			if values := row.Values(); len(values) == 1 {
				said = string(values[0])
			}
		}
	}
	switch err := answer.Close(); {
	case err != nil:
		return err
	case said == "t":
		return pgconn.ErrStandbyConnection
	case said != "f":
		return errors.New("the server does not say whether it is a standby")
	}
	return nil
}

// where says which server it is, without a secret.
func where(c *pgx.ConnConfig) string {
	return fmt.Sprintf("%s:%d, database %s", c.Host, c.Port, c.Database)
}

// dial makes a connection as the pool would, but one that keeps nothing prepared: there may be a pooler.
func dial(ctx context.Context, cfg *pgxpool.Config, mode pgx.QueryExecMode) (*pgx.Conn, error) {
	cc := cfg.ConnConfig.Copy()
	cc.DefaultQueryExecMode = mode
	if cfg.BeforeConnect != nil {
		if err := cfg.BeforeConnect(ctx, cc); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, cc)
}

// greeting is what a server says of itself.
type greeting struct {
	version int
	pooler  bool
	fsync   bool
	naming  bool // it tells its identifier to this role
}

// greet asks who is there. It refuses a standby. Like setSession it names all that it calls in full: until that is done,
// search_path is what somebody has set, and whoever may create in a schema that it names could put a function, an operator or a
// type of his own before the server's.
func greet(ctx context.Context, c *pgx.Conn, mode pgx.QueryExecMode) (g greeting, err error) {
	const ask = `SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('server_version_num')::int, pg_catalog.pg_backend_pid(),
		pg_catalog.current_setting('fsync') OPERATOR(pg_catalog.=) 'on'::pg_catalog.text,
		pg_catalog.has_function_privilege('pg_catalog.pg_control_system()'::pg_catalog.text, 'EXECUTE'::pg_catalog.text)`
	var standby bool
	var pid uint32
	if err := c.QueryRow(ctx, ask, mode).Scan(&standby, &g.version, &pid, &g.fsync, &g.naming); err != nil {
		return g, err
	}
	if standby {
		return g, errStandby
	}
	g.pooler = pid != c.PgConn().PID() // a pooler makes up a number of its own, since it has no process for us
	return g, nil
}

// setSession sets what our statements rely on, whatever the defaults of the server, the database and the role are. A swap is
// right only under READ COMMITTED, an answer must mean that the disk has it, and our contexts are the only limits we want.
// The server notices after some ten seconds that we are cut off, and gives up what we had under way.
func setSession(ctx context.Context, c *pgx.Conn, mode pgx.QueryExecMode) error {
	const set = `SELECT pg_catalog.set_config(name, value, false) FROM (VALUES
		('default_transaction_isolation', 'read committed'), ('default_transaction_read_only', 'off'),
		('default_transaction_deferrable', 'off'), ('synchronous_commit', 'on'), ('row_security', 'off'),
		('statement_timeout', '0'), ('lock_timeout', '0'), ('transaction_timeout', '0'),
		('idle_session_timeout', '0'), ('idle_in_transaction_session_timeout', '0'),
		('tcp_keepalives_idle', '4'), ('tcp_keepalives_interval', '2'), ('tcp_keepalives_count', '3'),
		('search_path', 'pg_catalog, pg_temp'), ('bytea_output', 'hex'), ('jit', 'off')) AS wanted (name, value)
		WHERE name OPERATOR(pg_catalog.=) ANY (SELECT s.name FROM pg_catalog.pg_settings s)`
	_, err := c.Exec(ctx, set, mode)
	return err
}

// run sends one statement and returns how many rows it has changed or found. Without a scan it returns no rows.
func run(ctx context.Context, c *pgx.Conn, sql string, args []any, scan func(pgx.Rows) error) (int64, error) {
	if scan == nil {
		tag, err := c.Exec(ctx, sql, args...)
		return tag.RowsAffected(), err
	}
	rows, err := c.Query(ctx, sql, args...)
	return gather(rows, err, scan)
}

func gather(rows pgx.Rows, err error, scan func(pgx.Rows) error) (int64, error) {
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return 0, err
		}
	}
	rows.Close()
	return rows.CommandTag().RowsAffected(), rows.Err()
}

// timelineSQL tells the timeline that is written to, from the first moment after a promotion.
const timelineSQL = `left(pg_walfile_name(pg_current_wal_lsn()), 8)`

// startedSQL tells when the server was started. No two servers of one table were in the same microsecond.
const startedSQL = `floor(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint`

// guard is what must be so before the server even reads a statement: planning one that names a stranger's table may run
// code of his already. The zero guard asks for nothing.
type guard struct {
	table    table
	oid      int64
	timeline string // "": any
	started  int64  // when the server was started, us; 0: whenever
}

// run sends a transaction in one trip. What the statement relies on is set within it, so it may go over any connection that
// a pooler has. If the server is not what g says, a division by zero ends the transaction before the statement is read.
//
// The lock is the one that the statement takes anyway. Once we have it, the name means the same table until the end, and nobody
// puts a trigger there.
func (g guard) run(ctx context.Context, c *pgx.Conn, sql string, args []any, scan func(pgx.Rows) error) (n int64, err error) {
	var b pgx.Batch
	b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE")
	b.Queue(`SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true), pg_catalog.set_config('synchronous_commit', 'on', true),
		pg_catalog.set_config('statement_timeout', '0', true), pg_catalog.set_config('lock_timeout', '0', true),
		pg_catalog.set_config('row_security', 'off', true), pg_catalog.set_config('bytea_output', 'hex', true)`)
	if g.oid != 0 {
		b.Queue("LOCK TABLE ONLY " + g.table.quoted() + " IN ROW EXCLUSIVE MODE")
		b.Queue(`SELECT 1 / ($1::text IN ('', `+timelineSQL+`) AND to_regclass($2::text)::oid = $3::bigint::oid
			AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = $3::bigint::oid)
			AND $4::bigint IN (0, `+startedSQL+`))::int`, g.timeline, g.table.quoted(), g.oid, g.started)
	}
	before := b.Len()
	b.Queue(sql, args...)
	b.Queue("COMMIT")
	r := c.SendBatch(ctx, &b)
	defer func() {
		if e := r.Close(); err == nil {
			err = e
		}
	}()
	for range before {
		if _, err := r.Exec(); err != nil {
			return 0, err
		}
	}
	if scan == nil {
		var tag pgconn.CommandTag
		tag, err = r.Exec()
		n = tag.RowsAffected()
	} else {
		var rows pgx.Rows
		rows, err = r.Query()
		n, err = gather(rows, err, scan)
	}
	if err != nil {
		return 0, err
	}
	tag, err := r.Exec()
	if err == nil && !strings.HasPrefix(tag.String(), "COMMIT") {
		err = fmt.Errorf("the commit was answered with %s", tag)
	}
	return n, err
}

// hangUp closes a connection, and says goodbye if that is quick.
func hangUp(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	c.Close(ctx)
}
