package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"fmt"
	"slices"
	"strings"

	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Schema returns the SQL that makes the table, for use where the user may not create one. It does nothing if the table is
// there already. The user of the table needs SELECT, INSERT, UPDATE and DELETE on it.
//
// It panics if the name is not one that [WithTable] takes.
func Schema(table string) string {
	t, err := tableOf(table)
	if err != nil {
		panic(err)
	}
	return t.schema() + ";\n"
}

// A register is a row. Its key is bytes, since a collation takes some names for others: "a" for "A", and "a" for "a ".
//
// Two rows are not registers. They have keys that no register has: the empty one and a control character. They are made in
// the statement that makes the table, so nobody sees it without them unless it was emptied.
const schemaSQL = `CREATE TABLE IF NOT EXISTS {table} (
	name           VARBINARY(1100) NOT NULL PRIMARY KEY,
	version        BIGINT NOT NULL,
	since          DATETIME(6) NOT NULL,
	reserved_by    BIGINT NULL,
	reserved_until DATETIME(6) NULL,
	value          LONGBLOB NOT NULL
) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC,
	COMMENT = 'turnwise keeps its lines and sessions here. Do not change or empty it while somebody holds a lock.'
AS SELECT '' AS name, 0 AS version, UTC_TIMESTAMP(6) AS since, NULL AS reserved_by, NULL AS reserved_until, CONCAT('{layout}', UUID()) AS value
UNION ALL SELECT x'00', 0, UTC_TIMESTAMP(6), NULL, NULL, ''`

// layout is what the row with the empty key begins with. What follows is the table's identity, which is another one after
// the table was dropped and created again.
const layout = "turnwise register, layout 1, "

func (t table) schema() string {
	return strings.NewReplacer("{table}", t.quoted(), "{layout}", layout).Replace(schemaSQL)
}

// ensure makes the table if it is not there, and refuses one that would not keep what is put into it.
func (t table) ensure(ctx context.Context, c *conn) error {
	there, err := t.inspect(ctx, c)
	if err != nil || there {
		return err
	}
	if _, err := c.exec(ctx, t.schema()); err != nil {
		return fmt.Errorf("make the table %s: %w", t.quoted(), explain(err, advice{
			denied: fmt.Sprintf("the user may not make the table; have somebody who may run what mysql.Schema(%q) returns, "+
				"and GRANT SELECT, INSERT, UPDATE, DELETE on it to the user", t),
			missing: "there is no such database: make it with CREATE DATABASE, or name another one",
		}))
	}
	_, err = t.inspect(ctx, c)
	return err
}

// inspect finds out whether the table is there and will do. A table has no owner here, and what a trigger does, it does with the
// rights of whoever made it. But it may change what we write, and the settings of our connection. The server shows triggers
// only to those who may make some.
func (t table) inspect(ctx context.Context, c *conn) (there bool, err error) {
	const find = `SELECT table_type, engine, (SELECT MIN(g.trigger_name) FROM information_schema.triggers AS g
		WHERE g.event_object_schema = i.table_schema AND g.event_object_table = i.table_name)
		FROM information_schema.tables AS i WHERE table_schema = `
	sql, args := find+`DATABASE() AND table_name = ?`, t.names()
	if len(t) == 2 {
		sql = find + `? AND table_name = ?`
	}
	var kind, engine, trigger string
	err = c.query(ctx, sql, args, func(row []sqldriver.Value) error {
		there, kind, engine, trigger = true, text(row[0]), text(row[1]), text(row[2])
		return nil
	})
	switch {
	case err != nil:
		return false, t.explain(err)
	case !there:
		return false, nil
	case kind != "BASE TABLE":
		return false, storekit.Denied("%s is no plain table: name another one with WithTable", t.quoted())
	case !strings.EqualFold(engine, "InnoDB"):
		return false, storekit.Denied("the table %s is kept by %s, which does not do what we need: ALTER TABLE %[1]s ENGINE = InnoDB", t.quoted(), engine)
	case trigger != "":
		return false, storekit.Denied("the table %s has a trigger, %s, which may change what we write: DROP TRIGGER", t.quoted(), table{trigger}.quoted())
	}
	return true, t.measure(ctx, c)
}

// layoutIs is what a table of ours has, as the server tells it.
var layoutIs = []string{"name varbinary 0", "version bigint 0", "since datetime 6", "reserved_by bigint 0", "reserved_until datetime 6",
	"value longblob 0", "PRIMARY KEY name"}

// measure refuses a table of another layout. Whoever makes the table before others do decides what it is like: with times of whole
// seconds, sessions would seem to be older than they are, and with another key, two could make the same register.
func (t table) measure(ctx context.Context, c *conn) error {
	where, args := `table_schema = DATABASE() AND table_name = ?`, t.names()
	if len(t) == 2 {
		where = `table_schema = ? AND table_name = ?`
	}
	sql := `SELECT CONCAT_WS(' ', column_name, data_type, COALESCE(datetime_precision, 0), NULLIF(column_default, 'NULL'), NULLIF(extra, ''))
		FROM information_schema.columns WHERE ` + where + `
		UNION ALL SELECT CONCAT_WS(' ', 'PRIMARY KEY', column_name, sub_part) FROM information_schema.statistics
		WHERE index_name = 'PRIMARY' AND ` + where + `
		UNION ALL SELECT CONCAT_WS(' ', constraint_type, constraint_name) FROM information_schema.table_constraints
		WHERE constraint_type <> 'PRIMARY KEY' AND ` + where
	missing := slices.Clone(layoutIs)
	strange := ""
	err := c.query(ctx, sql, slices.Concat(args, args, args), func(row []sqldriver.Value) error {
		has := text(row[0])
		if i := slices.Index(missing, has); i >= 0 {
			missing = slices.Delete(missing, i, i+1)
		} else {
			strange = has
		}
		return nil
	})
	switch {
	case err != nil:
		return t.explain(err)
	case strange != "":
		return storekit.Denied("the table %s has another layout (%q): name another one with WithTable", t.quoted(), strange)
	case len(missing) > 0:
		return storekit.Denied("the table %s has another layout (no %q): name another one with WithTable", t.quoted(), missing[0])
	}
	return nil
}
