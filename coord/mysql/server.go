package mysql

import (
	"bytes"
	"cmp"
	"context"
	sqldriver "database/sql/driver"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord/register/storekit"
)

// server is what a server says of itself.
type server struct {
	values  map[string]string // settings and counters, by their names in lower case
	asked   time.Duration     // when it was asked for how long it has been up, as in memory
	mariaDB bool
	version [2]int
}

// maxSettings is more than are asked for.
const maxSettings = 100

// introduce asks a connection which server it leads to, and prepares it first if that is not done yet. Both dialects answer
// these statements to any user, and leave out what they do not have.
func introduce(ctx context.Context, c *conn) (*server, error) {
	if !c.prepared {
		if err := setSession(ctx, c); err != nil {
			return nil, err
		}
		c.prepared = true
	}
	v := &server{values: make(map[string]string)}
	note := func(row []sqldriver.Value) error {
		if len(v.values) > maxSettings {
			return fmt.Errorf("the server tells of more settings than were asked for")
		}
		v.values[strings.ToLower(text(row[0]))] = text(row[1])
		return nil
	}
	const settings = `SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'hostname', 'port', 'datadir', 'server_id',
		'server_uuid', 'read_only', 'super_read_only', 'innodb_read_only', 'wsrep_on', 'group_replication_group_name',
		'group_replication_single_primary_mode', 'innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'binlog_format',
		'max_allowed_packet')`
	const counters = `SHOW GLOBAL STATUS WHERE Variable_name IN ('Uptime', 'Innodb_lsn_flushed', 'Innodb_redo_log_flushed_to_disk_lsn')`
	for _, sql := range []string{settings, counters} {
		v.asked = time.Since(loaded)
		if err := c.query(ctx, sql, nil, note); err != nil {
			return nil, err
		}
	}
	v.identify()
	return v, nil
}

func (v *server) identify() {
	name := v.values["version"]
	v.mariaDB = strings.Contains(strings.ToLower(name), "mariadb")
	fmt.Sscanf(strings.TrimPrefix(name, "5.5.5-"), "%d.%d", &v.version[0], &v.version[1])
}

// number returns one of the values. Less than nothing, as the time since a start that lies ahead, is told as a number without a sign.
func (v *server) number(name string) int64 {
	n, err := strconv.ParseInt(v.values[name], 10, 64)
	if err != nil {
		u, _ := strconv.ParseUint(v.values[name], 10, 64)
		return int64(u)
	}
	return n
}

// up is for how long the server has been up, rounded down. It is negative if its clock was set back to before it was started.
func (v *server) up() time.Duration {
	s := v.number("uptime")
	if s > 0 {
		s--
	}
	return storekit.Since(min(max(s, -mostUp), mostUp) * 1e6)
}

// mostUp is for how long a server can have been up, in seconds, whatever it says.
const mostUp = 1 << 33

func (v *server) isOn(name string) bool {
	switch strings.ToUpper(v.values[name]) {
	case "", "0", "OFF", "NO":
		return false
	}
	return true
}

// here names the server. A replica has another number, and usually another host. MySQL gives each data directory a name.
func (v *server) here() string {
	name := v.values["server_uuid"]
	if name == "" {
		name = fmt.Sprintf("%s:%s%s", v.values["hostname"], v.values["port"], v.values["datadir"])
	}
	return fmt.Sprintf("%s, number %s", name, v.values["server_id"])
}

// lsn tells how much of the log is safely on the disk. Only a server that has lost some of it goes back. It is 0 if the
// server does not say.
func (v *server) lsn() int64 {
	return cmp.Or(v.number("innodb_lsn_flushed"), v.number("innodb_redo_log_flushed_to_disk_lsn"))
}

// forgetful says why a crash may take what was answered; "" if it does not. With a binary log, a transaction that is
// missing there is rolled back after a crash.
func (v *server) forgetful() string {
	switch {
	case v.values["innodb_flush_log_at_trx_commit"] != "1":
		return "innodb_flush_log_at_trx_commit=" + v.values["innodb_flush_log_at_trx_commit"]
	case v.isOn("log_bin") && v.values["sync_binlog"] != "1":
		return "sync_binlog=" + v.values["sync_binlog"]
	}
	return ""
}

// check refuses a server that would not do.
func (v *server) check() error {
	oldest, name := [2]int{8, 0}, "MySQL"
	if v.mariaDB {
		oldest, name = [2]int{10, 6}, "MariaDB"
	}
	switch {
	case v.version[0] < oldest[0] || v.version[0] == oldest[0] && v.version[1] < oldest[1]:
		return storekit.Denied("the server's version is %s, and we need %s %d.%d or newer", v.values["version"], name, oldest[0], oldest[1])
	case v.isOn("wsrep_on"):
		return storekit.Denied("the server is part of a Galera cluster, whose nodes lag behind each other: use a server of its own")
	case v.values["group_replication_group_name"] != "" && !v.isOn("group_replication_single_primary_mode"):
		return storekit.Denied("the server is part of a group with several primaries, which lag behind each other: set group_replication_single_primary_mode")
	case v.isOn("log_bin") && strings.EqualFold(v.values["binlog_format"], "STATEMENT"):
		return storekit.Denied("the server cannot log what we do with binlog_format=STATEMENT: set it to ROW or MIXED")
	}
	return v.checkWrites()
}

// checkWrites refuses a server that takes no writes. That may pass, when a replica becomes the primary.
func (v *server) checkWrites() error {
	if v.isOn("read_only") || v.isOn("super_read_only") || v.isOn("innodb_read_only") {
		return errReadOnly
	}
	return nil
}

// setSession sets what our statements rely on, whatever the defaults of the server and the user are. The server waits only a few
// seconds at a time for a lock that somebody holds by hand; then we look at our contexts.
//
// Of the comments, MySQL reads the first and MariaDB the second.
func setSession(ctx context.Context, c *conn) error {
	for _, sql := range []string{
		`SET SESSION autocommit = 1, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', innodb_lock_wait_timeout = 5,
			lock_wait_timeout = 5, sql_safe_updates = 0, sql_select_limit = 18446744073709551615,
			time_zone = '+00:00'
			/*!80000 , max_execution_time = 0 */ /*M! , max_statement_time = 0 */`,
		`SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED`,
		`SET SESSION TRANSACTION READ WRITE`,
	} {
		if _, err := c.exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

func text(v sqldriver.Value) string {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case string:
		return v
	case nil:
		return ""
	}
	return fmt.Sprint(v)
}

// integer is the number in an answer; 0 if it is NULL.
func integer(v sqldriver.Value) int64 {
	if n, ok := v.(int64); ok {
		return n
	}
	n, _ := strconv.ParseInt(text(v), 10, 64)
	return n
}

// bytesOf copies bytes of an answer, since the next answer overwrites them.
func bytesOf(v sqldriver.Value) []byte {
	if b, ok := v.([]byte); ok {
		return bytes.Clone(b)
	}
	return []byte(text(v))
}
