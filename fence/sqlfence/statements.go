package sqlfence

import "strings"

// statements are what a fence sends to the database.
type statements struct {
	quote  string
	schema string
	probe  string // fails if the table is not there
	vet    string // says what is wrong with the table, '' if nothing is; no row: it is not there. "": nothing can be
	pass   string
	passed int64 // how many rows pass changes if the stamp has passed
	read   string
}

func (s statements) of(table string) statements {
	for _, text := range []*string{&s.schema, &s.probe, &s.vet, &s.pass, &s.read} {
		*text = strings.ReplaceAll(*text, "{table}", table)
	}
	return s
}

// PostgreSQL runs what hangs on a table, or what a view is made of, with the rights of whoever writes to it. So whoever may
// create in a schema could have made it before us, and have code of his run with our rights. As somebody may have set the
// search_path, all functions, operators and types have their schemas.
const vetPostgres = `WITH trusted AS (
	SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolsuper OR r.rolname OPERATOR(pg_catalog.=) current_user
		OR r.rolname OPERATOR(pg_catalog.=) '{owner}' OR r.rolname OPERATOR(pg_catalog.=) 'pg_database_owner'
	UNION SELECT d.datdba FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
)
SELECT CASE
	WHEN NOT EXISTS (SELECT FROM trusted x WHERE x.oid OPERATOR(pg_catalog.=) c.relowner)
		THEN pg_catalog.concat('belongs to ', pg_catalog.pg_get_userbyid(c.relowner))
	WHEN EXISTS (SELECT FROM pg_catalog.pg_trigger g JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) g.tgfoid
			WHERE g.tgrelid OPERATOR(pg_catalog.=) c.oid
			AND NOT EXISTS (SELECT FROM trusted x WHERE x.oid OPERATOR(pg_catalog.=) p.proowner))
		THEN 'has a trigger by which a function of somebody else''s is called'
	ELSE '' END
FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass('{table}')`

// On MariaDB and MySQL, a trigger runs with the rights of who made it, but a view may call functions with ours. And whoever may create
// in the database decides what the table is like, if he comes before us: without our key a stale stamp gets a row of its own, and passes;
// with another unique index the row of another line is changed; a collation takes one line for another; most engines lock no rows; and the rows of a
// table with a parent of his go when he likes.
const vetMySQL = `SELECT CASE
	WHEN t.table_type <> 'BASE TABLE' THEN 'is no plain table'
	WHEN t.engine <> 'InnoDB' THEN CONCAT('is kept by ', t.engine)
	WHEN (SELECT GROUP_CONCAT(CONCAT_WS(' ', c.column_name, c.data_type, c.character_maximum_length, NULLIF(c.extra, '')) ORDER BY c.ordinal_position)
			FROM information_schema.columns AS c WHERE c.table_schema = {schema} AND c.table_name = {name})
		<> 'line varbinary 1100,epoch bigint,token bigint,passes bigint' THEN 'has other columns'
	WHEN COALESCE((SELECT GROUP_CONCAT(CONCAT_WS(' ', s.index_name, s.column_name, s.sub_part))
			FROM information_schema.statistics AS s WHERE s.non_unique = 0 AND s.table_schema = {schema} AND s.table_name = {name}), '')
		<> 'PRIMARY line' THEN 'has other keys'
	WHEN EXISTS (SELECT 1 FROM information_schema.table_constraints AS k
			WHERE k.constraint_type <> 'PRIMARY KEY' AND k.table_schema = {schema} AND k.table_name = {name}) THEN 'has constraints of its own'
	WHEN EXISTS (SELECT 1 FROM information_schema.triggers AS g
			WHERE g.event_object_schema = {schema} AND g.event_object_table = {name}) THEN 'has a trigger'
	ELSE '' END
FROM information_schema.tables AS t WHERE t.table_schema = {schema} AND t.table_name = {name}`

var dialects = map[Dialect]statements{
	Postgres: {
		quote: `"`,
		schema: `CREATE TABLE IF NOT EXISTS {table} (
	line  text COLLATE "C" PRIMARY KEY,
	epoch bigint NOT NULL,
	token bigint NOT NULL
)`,
		probe: `SELECT line, epoch, token FROM {table} WHERE 1 = 0`,
		vet:   vetPostgres,
		pass: `INSERT INTO {table} AS f (line, epoch, token) VALUES ($1, $2, $3)
ON CONFLICT (line) DO UPDATE SET epoch = excluded.epoch, token = excluded.token
WHERE (f.epoch, f.token) <= (excluded.epoch, excluded.token)`,
		passed: 1,
		read:   `SELECT epoch, token FROM {table} WHERE line = $1`,
	},
	SQLite: {
		quote: `"`,
		schema: `CREATE TABLE IF NOT EXISTS {table} (
	line  TEXT NOT NULL PRIMARY KEY,
	epoch INTEGER NOT NULL,
	token INTEGER NOT NULL
)`,
		probe: `SELECT line, epoch, token FROM {table} WHERE 1 = 0`,
		pass: `INSERT INTO {table} AS f (line, epoch, token) VALUES (?, ?, ?)
ON CONFLICT (line) DO UPDATE SET epoch = excluded.epoch, token = excluded.token
WHERE (f.epoch, f.token) <= (excluded.epoch, excluded.token)`,
		passed: 1,
		read:   `SELECT epoch, token FROM {table} WHERE line = ?`,
	},
	// ON DUPLICATE KEY has no WHERE. A stamp that passes is counted in passes, so it always changes the row, which the
	// server counts as two rows. A new row counts as one; so does a row that stays as it is, if the driver asks for rows
	// found instead of rows changed. The assignments are made from left to right, and each sees those before it: passes is
	// decided by the old row, token by the old epoch and token, and epoch then comes out the same.
	//
	// The name is stored as bytes, since a collation takes some names for others.
	MySQL: {
		quote: "`",
		schema: `CREATE TABLE IF NOT EXISTS {table} (
	line   VARBINARY(1100) NOT NULL PRIMARY KEY,
	epoch  BIGINT NOT NULL,
	token  BIGINT NOT NULL,
	passes BIGINT NOT NULL DEFAULT 1
) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC`,
		probe: `SELECT line, epoch, token, passes FROM {table} WHERE 1 = 0`,
		vet:   vetMySQL,
		pass: `INSERT INTO {table} (line, epoch, token) VALUES (?, ?, ?)
ON DUPLICATE KEY UPDATE
	passes = IF(epoch < VALUES(epoch) OR epoch = VALUES(epoch) AND token <= VALUES(token), passes + 1, passes),
	token = IF(epoch < VALUES(epoch) OR epoch = VALUES(epoch) AND token <= VALUES(token), VALUES(token), token),
	epoch = IF(epoch < VALUES(epoch), VALUES(epoch), epoch)`,
		passed: 2,
		read:   `SELECT epoch, token FROM {table} WHERE line = ? FOR UPDATE`,
	},
}
