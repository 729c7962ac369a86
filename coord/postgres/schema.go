package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Schema returns the SQL that makes the table, for use where the role may not create one. It does nothing if the table is
// there already. The role that uses the table needs USAGE on its schema, and SELECT, INSERT, UPDATE and DELETE on it.
//
// It panics if the name is not one that [WithTable] takes.
func Schema(table string) string {
	t, err := tableOf(table)
	if err != nil {
		panic(err)
	}
	return t.schema()
}

// A register is a row. Half of each page is left free, so that a new version of a row finds room beside the old one and
// no index entry is written. A value beyond 2 kB is kept elsewhere, which leaves one dead copy for each swap, so both
// tables are vacuumed early and without pauses.
//
// Two rows are not registers. They have keys that no register has: the empty one and a control character.
const schemaSQL = `CREATE TABLE IF NOT EXISTS {table} (
	version        bigint      NOT NULL,
	since          timestamptz NOT NULL DEFAULT clock_timestamp(),
	reserved_by    bigint,
	reserved_until timestamptz,
	key            bytea       PRIMARY KEY,
	value          bytea       NOT NULL
) WITH (
	fillfactor = 50,
	autovacuum_vacuum_scale_factor = 0,
	autovacuum_vacuum_threshold = 2000,
	autovacuum_vacuum_cost_delay = 0,
	toast.autovacuum_vacuum_scale_factor = 0,
	toast.autovacuum_vacuum_threshold = 2000,
	toast.autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE {table} ALTER value SET STORAGE EXTERNAL;
COMMENT ON TABLE {table} IS 'turnwise keeps its lines and sessions here. Do not change or empty it while somebody holds a lock.';
INSERT INTO {table} (key, version, value)
	VALUES ('', 0, convert_to('{layout}' || gen_random_uuid(), 'UTF8')), (decode('00', 'hex'), 0, '')
	ON CONFLICT DO NOTHING;
`

// layout is what the row with the empty key begins with. What follows is the table's identity, which is another one after
// the table was dropped and created again.
const layout = "turnwise register, layout 1, "

func (t table) schema() string {
	return strings.NewReplacer("{table}", t.quoted(), "{layout}", layout).Replace(schemaSQL)
}

// prepare makes the table if it is not there, and refuses one that would not keep what is put into it.
func (t table) prepare(ctx context.Context, c *pgx.Conn, mode pgx.QueryExecMode) error {
	there, err := t.inspect(ctx, c, mode)
	if err != nil || there {
		return err
	}
	// In one transaction, so that nobody sees the table without its rows, and one at a time.
	making := "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE; SELECT pg_advisory_xact_lock(hashtext('turnwise register'));\n" +
		t.schema() + "COMMIT"
	if _, err := c.Exec(ctx, making, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("make the table %s: %w", t.quoted(), explain(err, advice{
			denied: fmt.Sprintf("the role may not make the table; have somebody who may run what postgres.Schema(%q) returns, "+
				"and GRANT USAGE on the schema and SELECT, INSERT, UPDATE, DELETE on the table to the role", t),
			missing: fmt.Sprintf("there is no such schema: CREATE SCHEMA %s, and then run what postgres.Schema(%q) returns",
				t[:1].quoted(), t)}))
	}
	_, err = t.inspect(ctx, c, mode)
	return err
}

func (t table) inspect(ctx context.Context, c *pgx.Conn, mode pgx.QueryExecMode) (there bool, err error) {
	const find = `SELECT c.relkind::text, c.relpersistence::text, row_security_active(c.oid)
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1::text AND c.relname = $2::text`
	var kind, persistence string
	var hidden bool
	err = c.QueryRow(ctx, find, mode, t[0], t[1]).Scan(&kind, &persistence, &hidden)
	switch {
	case err == pgx.ErrNoRows:
		return false, nil
	case err != nil:
		return false, t.explain(err)
	case kind != "r":
		return false, storekit.Denied("%s is no plain table: name another one with WithTable", t.quoted())
	case persistence != "p":
		return false, storekit.Denied("the table %s is UNLOGGED or temporary and would be empty after a crash: ALTER TABLE %[1]s SET LOGGED", t.quoted())
	case hidden:
		return false, storekit.Denied("row security hides rows of %s from the role: ALTER TABLE %[1]s DISABLE ROW LEVEL SECURITY", t.quoted())
	}
	return true, nil
}
