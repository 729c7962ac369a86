package sqlfence

import "strings"

// statements are what a fence sends to the database.
type statements struct {
	quote  string
	schema string
	probe  string // fails if the table is not there
	pass   string
	passed int64 // how many rows pass changes if the stamp has passed
	read   string
}

func (s statements) of(table string) statements {
	for _, text := range []*string{&s.schema, &s.probe, &s.pass, &s.read} {
		*text = strings.ReplaceAll(*text, "{table}", table)
	}
	return s
}

var dialects = map[Dialect]statements{
	Postgres: {
		quote: `"`,
		schema: `CREATE TABLE IF NOT EXISTS {table} (
	line  text COLLATE "C" PRIMARY KEY,
	epoch bigint NOT NULL,
	token bigint NOT NULL
)`,
		probe: `SELECT line, epoch, token FROM {table} WHERE 1 = 0`,
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
		pass: `INSERT INTO {table} (line, epoch, token) VALUES (?, ?, ?)
ON DUPLICATE KEY UPDATE
	passes = IF(epoch < VALUES(epoch) OR epoch = VALUES(epoch) AND token <= VALUES(token), passes + 1, passes),
	token = IF(epoch < VALUES(epoch) OR epoch = VALUES(epoch) AND token <= VALUES(token), VALUES(token), token),
	epoch = IF(epoch < VALUES(epoch), VALUES(epoch), epoch)`,
		passed: 2,
		read:   `SELECT epoch, token FROM {table} WHERE line = ? FOR UPDATE`,
	},
}
