package mysql

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

// What a server has written, another writes in its turn; BINLOG is how a client has it do so, and nobody asks for a right to the table.
func TestAStrangerWhoMayReplayALogRunsAnything(t *testing.T) {
	s := withStrangers(t)
	if isMySQL(t, s.m) {
		t.Skip("there are other rights for that")
	}
	a, b := s.client("app", WithLongestTTL(2*time.Second)), s.client("app", WithLongestTTL(2*time.Second))
	storecheck.Locked(t, a, "orders")
	his := servers.MariaDB(t, servers.Config("log_bin=log", "server_id=4711", "binlog_format=ROW")).Member(0)
	query(t, his.URL(), `CREATE DATABASE IF NOT EXISTS turnwise`, Schema(usual), `INSERT INTO `+usual+` (name, version, since, value) VALUES ('line/orders', 1, NOW(), '')`,
		`RESET MASTER`, `UPDATE `+usual+` SET value = 'x' WHERE name = 'line/orders'`)
	log, err := os.ReadFile(query(t, his.URL(), `SELECT @@log_bin_basename`) + ".000001")
	if err != nil {
		t.Fatal(err)
	}
	var events []byte
	for log = log[4:]; len(log) > 19; {
		size := binary.LittleEndian.Uint32(log[9:])
		switch log[4] {
		case 15, 19, 24: // how the log is written, which table is meant, and how a row changes
			events = append(events, log[:size]...)
		}
		log = log[size:]
	}
	replay := `BINLOG '` + base64.StdEncoding.EncodeToString(events) + `'`
	s.mayNot(replay)
	s.admin(`GRANT BINLOG REPLAY ON *.* TO mallory@'127.0.0.1'`)
	s.mallory(replay)
	if value := s.admin(`SELECT value FROM ` + usual + ` WHERE name = 'line/orders'`); value != "x" {
		t.Errorf("the line is %q", value)
	}
	storecheck.IsNoLine(t, b, "orders")
}

// All that is written stands in the server's log, if there is one: names of lines, and what those who stand there say.
func TestAStrangerWhoMaySeeTheLog(t *testing.T) {
	s := withStrangers(t, servers.Config("log_bin=log", "sync_binlog=1", "server_id=1"))
	if isMySQL(t, s.m) {
		t.Skip("there are other rights for that")
	}
	storecheck.Locked(t, s.client("app", WithLongestTTL(2*time.Second)), "orders")
	t.Run("BINLOG MONITOR", func(t *testing.T) {
		s.mayNot(`SHOW BINLOG EVENTS`)
		s.admin(`GRANT BINLOG MONITOR ON *.* TO mallory@'127.0.0.1'`)
		rows, err := dialed(t, storecheck.As(t, s.m.URL(), "mallory", "", "theirs")).QueryContext(within(t, 10*time.Second), `SHOW BINLOG EVENTS`)
		if err != nil {
			t.Fatal(err)
		}
		all := ""
		for rows.Next() {
			var file, at, kind, server, end, info string
			if err := rows.Scan(&file, &at, &kind, &server, &end, &info); err != nil {
				t.Fatal(err)
			}
			all += info + "\n"
		}
		if !strings.Contains(all, "line/orders") {
			t.Errorf("he sees no line, but %s", all)
		}
	})
	t.Run("REPLICATION SLAVE", func(t *testing.T) {
		his := servers.MariaDB(t, servers.Config("server_id=4711", "slave_skip_errors=all")).Member(0)
		s.admin(`GRANT REPLICATION SLAVE ON *.* TO mallory@'127.0.0.1'`)
		_, port, err := net.SplitHostPort(s.m.Addr())
		if err != nil {
			t.Fatal(err)
		}
		query(t, his.URL(), fmt.Sprintf(`CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %s, MASTER_USER = 'mallory', MASTER_PASSWORD = ''`, port), `START SLAVE`)
		eventually(t, "his server has the table", func() bool {
			return query(t, his.URL(), `SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'turnwise_register'`) == "1"
		})
		eventually(t, "his server has the line", func() bool {
			return query(t, his.URL(), `SELECT COUNT(*) FROM `+usual+` WHERE name = 'line/orders'`) == "1"
		})
	})
}
