package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// setUp sets what we need and the user has left open.
func setUp(cfg *pgxpool.Config, c config) {
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = c.conns, 0, 0
	cfg.PingTimeout = time.Second
	cc := cfg.ConnConfig
	vet(cc)
	if cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = 3 * time.Second
	}
	if _, set := cc.RuntimeParams["application_name"]; !set {
		cc.RuntimeParams["application_name"] = "turnwise"
	}
	for _, other := range cc.Fallbacks {
		if cc.ValidateConnect == nil && (other.Host != cc.Host || other.Port != cc.Port) {
			cc.ValidateConnect = refuseStandby // of several hosts, the one that takes writes
		}
	}
}

// refuseStandby has the library go on to the next of several hosts.
func refuseStandby(ctx context.Context, c *pgconn.PgConn) error {
	return pgconn.ValidateConnectTargetSessionAttrsPrimary(ctx, c)
}

// where says which server it is, without a secret.
func where(c *pgx.ConnConfig) string {
	return fmt.Sprintf("%s:%d, database %s", c.Host, c.Port, c.Database)
}

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

// greeting is what a server says of itself.
type greeting struct {
	version int
	pooler  bool
	fsync   bool
	naming  bool // it tells its identifier to this role
}

// greet asks who is there. It refuses a standby.
func greet(ctx context.Context, c *pgx.Conn, mode pgx.QueryExecMode) (g greeting, err error) {
	const ask = `SELECT pg_is_in_recovery(), current_setting('server_version_num')::int, pg_backend_pid(),
		current_setting('fsync') = 'on', has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE')`
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

// prepare sets what our statements rely on, whatever the defaults of the server, the database and the role are. A swap is
// right only under READ COMMITTED, an answer must mean that the disk has it, and our contexts are the only limits we want.
// The server notices after some ten seconds that we are cut off, and gives up what we had under way.
func prepare(ctx context.Context, c *pgx.Conn, mode pgx.QueryExecMode) error {
	const set = `SELECT set_config(name, value, false) FROM (VALUES
		('default_transaction_isolation', 'read committed'), ('default_transaction_read_only', 'off'),
		('default_transaction_deferrable', 'off'), ('synchronous_commit', 'on'), ('row_security', 'off'),
		('statement_timeout', '0'), ('lock_timeout', '0'), ('transaction_timeout', '0'),
		('idle_session_timeout', '0'), ('idle_in_transaction_session_timeout', '0'),
		('tcp_keepalives_idle', '4'), ('tcp_keepalives_interval', '2'), ('tcp_keepalives_count', '3'),
		('search_path', 'pg_catalog'), ('bytea_output', 'hex'), ('jit', 'off')) AS wanted (name, value)
		WHERE name IN (SELECT name FROM pg_catalog.pg_settings)`
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

// runBehindPooler sends a transaction in one trip. What it relies on must be set within it. The server may be another one
// each time, so the transaction looks whether it is on the timeline that we know: if not, the division by zero ends it.
func runBehindPooler(ctx context.Context, c *pgx.Conn, timeline string, sql string, args []any, scan func(pgx.Rows) error) (n int64, err error) {
	var b pgx.Batch
	b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE")
	b.Queue(fmt.Sprintf(`SELECT set_config('synchronous_commit', 'on', true), set_config('statement_timeout', '0', true),
		set_config('lock_timeout', '0', true), set_config('row_security', 'off', true), set_config('bytea_output', 'hex', true),
		1 / (%s = '%s')::int`, timelineSQL, timeline))
	b.Queue(sql, args...)
	b.Queue("COMMIT")
	r := c.SendBatch(ctx, &b)
	defer func() {
		if e := r.Close(); err == nil {
			err = e
		}
	}()
	for range 2 {
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
