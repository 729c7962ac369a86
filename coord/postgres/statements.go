package postgres

import (
	"strings"

	"github.com/turnwise/turnwise/coord/register/storekit"
)

// lsnSQL tells how much of the log is safely on the disk. Only a server that has lost some of it goes back.
const lsnSQL = `pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_flush_lsn(), '0/0')::bigint`

// schemaChange is the transaction in which the table's schema was last changed. Somebody who may rename a schema can put another one
// in its place for a while, and the table that then stands there knows nothing of this one.
const schemaChange = `(SELECT n.xmin::text::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = m.tableoid)`

// placeChange tells in which transactions the table was made or last altered, and its database, and which database that is. A table that
// was made from a dump, or a database from a template, says itself that it has remembered everything for long, as does one that is renamed
// and back. What the server does by itself, such as VACUUM and ANALYZE, leaves these as they are.
const placeChange = `(SELECT hashtextextended(concat_ws(' ', c.xmin, d.xmin, d.oid), 0) FROM pg_class c, pg_database d
	WHERE c.oid = m.tableoid AND d.datname = current_database())`

// statements are what a store sends, with the table's name in them.
type statements struct {
	look, remember, refill   string
	acceptSchema             string
	read, list, first        string
	update, insert, remove   string // swaps without notes
	updateAndClock           string // which says what the clock says
	updateAndTell            string // and with them
	insertAndTell            string
	removeAndTell, mereNotes string
	reserve                  string
}

// A swap is one statement in a transaction of its own, under READ COMMITTED: when it has waited for another swap of the row,
// PostgreSQL looks at the row again before it changes it. Only if it has changed nothing does a second statement read what
// stands there: the first one's snapshot may be older than the swap that it waited for.
//
// With notes it is still one statement, so that the notes are told if and only if the swap is committed. NOTIFY takes a lock
// for the whole database until the commit is on disk, so notes come in the order of the commits.
//
// As long as a row is reserved, only the client that reserved it may swap it.
//
// Functions, operators and types need no schema here: search_path is pg_catalog, by setSession or by guard.run.
func statementsFor(t table) statements {
	const (
		// A reservation that seems to last longer than any does was made before the clock was set back.
		reserved = `reserved_until BETWEEN clock_timestamp() AND clock_timestamp() + interval '10 seconds'`
		free     = `(reserved_until IS NULL OR reserved_by = $3::bigint OR NOT ` + reserved + `)`
		// From an infinite or a huge time, which anybody who may insert a row can write there, no age can be computed: that of all rows
		// would be an error.
		age = `floor(extract(epoch FROM clock_timestamp()
			- greatest(least(since, timestamptz '3000-01-01'), timestamptz '1000-01-01')) * 1000000)::bigint`
		content = `version, CASE WHEN octet_length(value) > ` + storekit.MostRead + ` THEN decode('ff', 'hex') ELSE value END, ` + age
		clock   = `floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
		held    = `coalesce(reserved_by <> $2::bigint AND ` + reserved + `, false)`
		update  = `UPDATE {t} SET version = $4::bigint, value = $5::bytea, since = clock_timestamp(), reserved_until = NULL
			WHERE key = $1::bytea AND version = $2::bigint AND ` + free
		insert = `INSERT INTO {t} (key, version, value, since) SELECT $1::bytea, $2::bigint, $3::bytea, clock_timestamp()
			WHERE EXISTS (SELECT FROM {t} WHERE key = ''::bytea AND value = convert_to($4::text, 'UTF8')) ON CONFLICT (key) DO NOTHING`
		remove = `DELETE FROM {t} WHERE key = $1::bytea AND version = $2::bigint AND ` + free
	)
	with := func(swap, notes string) string {
		return `WITH swapped AS (` + swap + ` RETURNING 1) SELECT pg_notify(channel, note) FROM swapped, ` + notes
	}
	fill := func(sql string) string { return strings.ReplaceAll(sql, "{t}", t.quoted()) }
	return statements{
		look: fill(`SELECT ` + timelineSQL + `, ` + lsnSQL + `,
			` + startedSQL + `,
			(SELECT encode(value, 'escape') FROM {t} WHERE key = ''::bytea),
			encode(m.value, 'escape'), m.version,
			floor(extract(epoch FROM clock_timestamp() - greatest(m.since, pg_postmaster_start_time())) * 1000000)::bigint,
			m.reserved_by IS NOT DISTINCT FROM ` + schemaChange + `
				AND (SELECT reserved_by FROM {t} WHERE key = ''::bytea) IS NOT DISTINCT FROM ` + placeChange + `,
			(SELECT d.oid::bigint FROM pg_database d WHERE d.datname = current_database())
			FROM (SELECT) AS always LEFT JOIN {t} m ON m.key = decode('00', 'hex')`),
		remember: fill(`UPDATE {t} SET value = $1::bytea, version = $2::bigint, since = clock_timestamp()
			WHERE key = decode('00', 'hex') AND version = $3::bigint AND value = $4::bytea`),
		// Each has a row of its own: older versions of this package know only the schema's.
		acceptSchema: fill(`UPDATE {t} AS m SET since = clock_timestamp(), reserved_by = CASE m.key WHEN ''::bytea THEN ` + placeChange + `
			ELSE ` + schemaChange + ` END WHERE m.key IN (''::bytea, decode('00', 'hex'))`),
		refill: fill(`INSERT INTO {t} (key, version, value) VALUES (''::bytea, 0, convert_to($1::text || gen_random_uuid(), 'UTF8')),
			(decode('00', 'hex'), $2::bigint, ''::bytea) ON CONFLICT DO NOTHING`),

		first: fill(`SELECT convert_from(value, 'UTF8') FROM {t} WHERE key = ''::bytea`),
		read:  fill(`SELECT ` + content + `, ` + clock + `, ` + lsnSQL + `, ` + held + ` FROM {t} WHERE key = $1::bytea`),
		list: fill(`SELECT key, version, CASE WHEN octet_length(value) > ` + storekit.MostListed + ` THEN NULL ELSE value END, ` + age + ` FROM {t}
			WHERE key >= $1::bytea AND key < $2::bytea ORDER BY key LIMIT $3::int`),
		reserve: fill(`UPDATE {t} SET reserved_by = $2::bigint, reserved_until = clock_timestamp() + $3::bigint * interval '1 microsecond'
			WHERE key = $1::bytea AND (reserved_until IS NULL OR reserved_by = $2::bigint OR NOT ` + reserved + `)
			RETURNING ` + content + `, ` + clock + `, ` + lsnSQL + `, false`),

		update:         fill(update),
		updateAndClock: fill(update + ` RETURNING ` + clock),
		updateAndTell:  fill(with(update, `unnest($6::text[], $7::text[]) AS told (channel, note)`)),
		insert:         fill(insert),
		insertAndTell:  fill(with(insert, `unnest($5::text[], $6::text[]) AS told (channel, note)`)),
		remove:         fill(remove),
		removeAndTell:  fill(with(remove, `unnest($4::text[], $5::text[]) AS told (channel, note)`)),
		mereNotes: fill(`SELECT pg_notify(channel, note) FROM unnest($2::text[], $3::text[]) AS told (channel, note)
			WHERE NOT EXISTS (SELECT FROM {t} WHERE key = $1::bytea)`),
	}
}
