package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Schema returns the SQL that makes the table, for use where the role may not create one. It is one statement, and does
// nothing if there is a table of that name already. The role that uses the table needs USAGE on its schema, and SELECT,
// INSERT, UPDATE and DELETE on it.
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
//
// Nothing is put into a table that is there already: it may be a stranger's, with a trigger. And since a superuser may run this
// with any search_path, all that others could put something of their own before is named in full.
const schemaSQL = `DO $turnwise$ BEGIN
IF pg_catalog.to_regclass('{name}'::pg_catalog.text) IS NOT NULL THEN
	RETURN;
END IF;
CREATE TABLE {table} (
	version        bigint                 NOT NULL,
	since          pg_catalog.timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
	reserved_by    bigint,
	reserved_until pg_catalog.timestamptz,
	key            pg_catalog.bytea       PRIMARY KEY,
	value          pg_catalog.bytea       NOT NULL
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
INSERT INTO {table} (key, version, value) VALUES
	('', 0, pg_catalog.convert_to('{layout}'::pg_catalog.text OPERATOR(pg_catalog.||) pg_catalog.gen_random_uuid()::pg_catalog.text,
		'UTF8'::pg_catalog.name)),
	(pg_catalog.decode('00'::pg_catalog.text, 'hex'::pg_catalog.text), 0, '');
END $turnwise$;
`

// layout is what the row with the empty key begins with. What follows is the table's identity, which is another one after
// the table was dropped and created again.
const layout = "turnwise register, layout 1, "

func (t table) schema() string {
	name := strings.ReplaceAll(t.quoted(), "'", "''")
	return strings.NewReplacer("{table}", t.quoted(), "{name}", name, "{layout}", layout).Replace(schemaSQL)
}

// ensure makes the table if it is not there, and refuses one that would not keep what is put into it, or that a stranger may
// have attached something to.
func (t table) ensure(ctx context.Context, c *pgx.Conn, owner string) (*inspection, error) {
	at, err := t.inspect(ctx, c, owner)
	if err != nil || at != nil {
		return at, err
	}
	_, err = guard{}.run(ctx, c, t.schema(), nil, nil)
	if err != nil && !isState(err, "42P07") && !isState(err, "23505") { // another was quicker
		return nil, fmt.Errorf("make the table %s: %w", t.quoted(), explain(err, advice{
			denied: fmt.Sprintf("the role may not make the table; have somebody who may run what postgres.Schema(%q) returns, "+
				"and GRANT USAGE on the schema and SELECT, INSERT, UPDATE, DELETE on the table to the role", t),
			missing: fmt.Sprintf("there is no such schema: CREATE SCHEMA %s, and then run what postgres.Schema(%q) returns",
				t[:1].quoted(), t)}))
	}
	if at, err = t.inspect(ctx, c, owner); err == nil && at == nil {
		err = t.gone()
	}
	return at, err
}
