package postgres

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// durable is a server whose data survive a restart, by its own settings.
func durable(t testing.TB, opts ...servers.Option) *servers.Member {
	t.Helper()
	return servers.Postgres(t, append([]servers.Option{servers.Fsync()}, opts...)...).Member(0)
}

func sharedServer(t testing.TB) *servers.Member {
	t.Helper()
	return servers.Postgres(t, servers.Fsync(), servers.Shared(), servers.Config("max_connections = 300")).Member(0)
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

// query runs SQL as the superuser, on a connection of its own, and returns what the last statement says.
func query(t testing.TB, url string, statements ...string) (said string) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	c := dialed(t, url)
	defer c.Close(ctx)
	for _, sql := range statements {
		results, err := c.PgConn().Exec(ctx, sql).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		said = ""
		for _, r := range results {
			for _, row := range r.Rows {
				said = string(row[0])
			}
		}
	}
	return said
}

func dialed(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(within(t, 30*time.Second), url)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
