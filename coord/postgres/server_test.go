package postgres

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestMain(m *testing.M) {
	servers.MostlyWaiting()
	os.Exit(servers.Main(m))
}

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
	ctx := within(t, 3*time.Minute) // much is written, perhaps, on a busy machine
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

// loud returns what is to be said to those who use a table by a role that may read it, and nothing else. So it can compute
// the channels of all topics.
func loud(t testing.TB, url, name string) (tell func(topic string, note []byte) error) {
	t.Helper()
	reads, notify := ofAReader(t, url, name)
	return func(topic string, note []byte) (err error) {
		channels, texts := reads.encode([]register.Note{{Topic: topic, Text: note}})
		for i, channel := range channels {
			err = errors.Join(err, notify(channel, texts[i]))
		}
		return err
	}
}

// ofAReader returns what a role knows that may read a table, and nothing else, and a way for it to say anything.
func ofAReader(t testing.TB, url, name string) (knows *memory, notify func(channel, text string) error) {
	t.Helper()
	table, err := tableOf(name)
	if err != nil {
		t.Fatal(err)
	}
	role := storecheck.FreshTable()
	query(t, url, `CREATE ROLE `+role+` LOGIN PASSWORD 'loud'`, `GRANT SELECT ON `+table.quoted()+` TO `+role)
	c := dialed(t, storecheck.As(t, url, role, "loud", ""))
	t.Cleanup(func() { c.Close(context.Background()) })
	reads := &memory{}
	if err := c.QueryRow(within(t, 30*time.Second), statementsFor(table).first).Scan(&reads.identity); err != nil {
		t.Fatal(err)
	}
	var one sync.Mutex
	return reads, func(channel, text string) error {
		one.Lock()
		defer one.Unlock()
		_, err := c.Exec(context.Background(), `SELECT pg_notify($1, $2)`, channel, text)
		return err
	}
}
