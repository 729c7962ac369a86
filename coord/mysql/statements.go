package mysql

import (
	"strings"

	"github.com/turnwise/turnwise/coord/register/storekit"
)

// statements are what a store sends, with the table's name in them.
type statements struct {
	look, remember, refill string
	read, list             string
	update, insert, remove string
	updateAndClock         string // says what the clock says
	reserve                string
}

// A swap is one statement in a transaction of its own, under READ COMMITTED: when it has waited for another swap of the row,
// InnoDB looks at the row as it is then. The row is named by its primary key alone, so nothing but the row is locked. Only
// if it has changed nothing does a second statement read what stands there.
//
// An insert that meets a row locks it for writing and leaves it as it is. INSERT IGNORE would lock it for reading, and two
// clients that want to make a register while it is removed would then be in each other's way.
//
// As long as a row is reserved, only the client that reserved it may swap it. Each statement says which server it is for: a
// proxy may have taken us elsewhere.
//
// A view in the table's place could run functions of whoever made it, with our rights. The hint keeps that out at no cost: a
// view has no index, so the server refuses the statement before it begins. A DELETE takes a hint only in the form for several tables.
//
// Times are in UTC, whatever the time zone of the session. They are those when the server began with the statement.
func statementsFor(t table) statements {
	const (
		// A reservation that seems to last longer than any does was made before the clock was set back.
		reserved = `reserved_until BETWEEN UTC_TIMESTAMP(6) AND UTC_TIMESTAMP(6) + INTERVAL 10 SECOND`
		free     = `(reserved_until IS NULL OR reserved_by = ? OR NOT ` + reserved + `)`
		age      = `TIMESTAMPDIFF(MICROSECOND, r.since, UTC_TIMESTAMP(6))`
		content  = `r.version, IF(LENGTH(r.value) > ` + storekit.MostRead + `, x'ff', r.value), ` + age
		clock    = `TIMESTAMPDIFF(MICROSECOND, '2000-01-01', UTC_TIMESTAMP(6))`
		// A server that no longer waits for its disk, or does so again, is another one.
		keeps = `(@@global.innodb_flush_log_at_trx_commit = 1 AND (@@global.log_bin = 0 OR @@global.sync_binlog = 1))`
		atIt  = ` AND @@global.server_id = ? AND ` + keeps + ` = ?`
		// A table that was made from a dump, or renamed, says itself that it has remembered everything for long. The server tells in whole
		// seconds when it was made: see made.
		made = `(SELECT MIN(TIMESTAMPDIFF(MICROSECOND, i.create_time, UTC_TIMESTAMP(6))) FROM information_schema.tables AS i
			WHERE i.table_schema = {which} AND i.table_name = ?)`
		update = `UPDATE {t} FORCE INDEX (PRIMARY) SET version = ?, value = ?, since = UTC_TIMESTAMP(6), reserved_by = NULL, reserved_until = NULL
			WHERE name = ? AND version = ? AND ` + free + atIt
	)
	which := `DATABASE()`
	if len(t) == 2 {
		which = `?`
	}
	fill := func(sql string) string { return strings.NewReplacer("{t}", t.quoted(), "{which}", which).Replace(sql) }
	return statements{
		look: fill(`SELECT own.value, m.value, m.version, TIMESTAMPDIFF(MICROSECOND, m.since, UTC_TIMESTAMP(6)),
			` + clock + `, ` + keeps + `, ` + made + ` FROM (SELECT 1) AS always
			LEFT JOIN {t} AS own FORCE INDEX (PRIMARY) ON own.name = '' LEFT JOIN {t} AS m ON m.name = x'00'`),
		remember: fill(`UPDATE {t} FORCE INDEX (PRIMARY) SET value = ?, version = ?, since = UTC_TIMESTAMP(6) WHERE name = x'00' AND version = ? AND value = ?`),
		refill: fill(`INSERT IGNORE INTO {t} (name, version, since, value) VALUES ('', 0, UTC_TIMESTAMP(6), CONCAT('` + layout + `', UUID())),
			(x'00', ?, UTC_TIMESTAMP(6), '')`),

		// It always returns one row: a register counts as absent only if this is the table that we know.
		read: fill(`SELECT @@global.server_id, own.value, ` + content + `,
			` + clock + `, COALESCE(r.reserved_by <> ? AND r.` + reserved + `, 0), ` + keeps + `
			FROM (SELECT 1) AS always LEFT JOIN {t} AS own FORCE INDEX (PRIMARY) ON own.name = ''
			LEFT JOIN {t} AS r ON r.name = ?`),
		list: fill(`SELECT r.name, r.version, IF(LENGTH(r.value) > ` + storekit.MostListed + `, NULL, r.value), ` + age + ` FROM {t} AS r FORCE INDEX (PRIMARY)
			WHERE r.name >= ? AND r.name < ? ORDER BY r.name LIMIT ?`),

		reserve: fill(`UPDATE {t} FORCE INDEX (PRIMARY) SET reserved_by = ?, reserved_until = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND
			WHERE name = ? AND ` + free + atIt),

		update: fill(update),
		// The server tells of LAST_INSERT_ID with its answer: so the clock comes with the update.
		updateAndClock: fill(update + ` AND LAST_INSERT_ID(` + clock + `) > 0`),
		insert: fill(`INSERT INTO {t} (name, version, since, value) SELECT ?, ?, UTC_TIMESTAMP(6), ?
			FROM {t} AS own FORCE INDEX (PRIMARY) WHERE own.name = '' AND own.value = ?` + atIt + ` ON DUPLICATE KEY UPDATE {t}.version = {t}.version`),
		remove: fill(`DELETE {t} FROM {t} FORCE INDEX (PRIMARY) WHERE name = ? AND version = ? AND ` + free + atIt),
	}
}
