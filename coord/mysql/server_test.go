package mysql

import (
	"context"
	"database/sql"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestMain(m *testing.M) {
	servers.MostlyWaiting()
	os.Exit(servers.Main(m))
}

// durable is a server whose data survive a crash, by its own settings.
func durable(t testing.TB, opts ...servers.Option) *servers.Member {
	t.Helper()
	return servers.MariaDB(t, append([]servers.Option{servers.Fsync()}, opts...)...).Member(0)
}

func sharedServer(t testing.TB) *servers.Member {
	t.Helper()
	return servers.MariaDB(t, servers.Fsync(), servers.Shared(), servers.Config("max_connections=500")).Member(0)
}

// Words of the tests of all stores.
var (
	within     = storecheck.Within
	logger     = storecheck.Logger
	put        = storecheck.Put
	read       = storecheck.Read
	remove     = storecheck.Remove
	eventually = storecheck.Eventually
	freshTable = storecheck.FreshTable
)

// opened opens a store, and closes it with the test.
func opened(t testing.TB, url string, opts ...Option) *Store {
	t.Helper()
	return storecheck.Opened(t, func(ctx context.Context) (*Store, error) {
		return Open(ctx, url, append([]Option{WithLogger(logger(t))}, opts...)...)
	})
}

// isMySQL reports whether the server is MySQL, which speaks a little differently, and not MariaDB.
func isMySQL(t testing.TB, m *servers.Member) bool {
	return !strings.Contains(query(t, m.URL(), "SELECT VERSION()"), "MariaDB")
}

// query runs SQL as the superuser, on a connection of its own, and returns what the last statement says.
func query(t testing.TB, url string, statements ...string) (said string) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	c := dialed(t, url)
	for _, text := range statements {
		rows, err := c.QueryContext(ctx, text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for said = ""; rows.Next(); {
			if err := rows.Scan(&said); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return said
}

func dialed(t testing.TB, url string) *sql.Conn {
	t.Helper()
	cfg, err := parseEither(url)
	if err != nil {
		t.Fatal(err)
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	c, err := db.Conn(within(t, 30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
