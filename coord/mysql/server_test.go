package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// durable is a server whose data survive a crash, by its own settings.
func durable(t testing.TB, opts ...servers.Option) *servers.Member {
	t.Helper()
	return servers.MariaDB(t, append([]servers.Option{servers.Fsync()}, opts...)...).Member(0)
}

func sharedServer(t testing.TB) *servers.Member {
	t.Helper()
	return servers.MariaDB(t, servers.Fsync(), servers.Shared(), servers.Config("max_connections=500")).Member(0)
}

var tables atomic.Int64

// freshTable names a table that nobody has used.
func freshTable() string { return fmt.Sprintf("registers_%d_%d", os.Getpid(), tables.Add(1)) }

// opened opens a store, and closes it with the test.
func opened(t testing.TB, url string, opts ...Option) *Store {
	t.Helper()
	s, err := Open(within(t, 30*time.Second), url, append([]Option{WithLogger(logger(t))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// logger writes to the test's log as long as the test lasts.
func logger(t testing.TB) *slog.Logger {
	var over atomic.Bool
	t.Cleanup(func() { over.Store(true) })
	return slog.New(slog.NewTextHandler(writer(func(b []byte) (int, error) {
		if !over.Load() {
			t.Logf("%s", b)
		}
		return len(b), nil
	}), nil))
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

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

// put swaps in a value and returns what stands there then.
func put(t testing.TB, s *Store, was register.Item, value string) register.Item {
	t.Helper()
	w := register.Swap{Key: was.Key, Old: was.Version, Next: register.NewVersion(), Value: []byte(value)}
	it, err := s.Swap(within(t, 10*time.Second), w)
	if err != nil || it.Version != w.Next || string(it.Value) != value {
		t.Fatalf("swap: %+v, %v", it, err)
	}
	return it
}

func remove(t testing.TB, s *Store, was register.Item) {
	t.Helper()
	if it, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: was.Key, Old: was.Version}); err != nil || !it.Version.IsZero() {
		t.Fatalf("remove: %+v, %v", it, err)
	}
}

func read(t testing.TB, s *Store, key string) register.Item {
	t.Helper()
	it, err := s.Read(within(t, 10*time.Second), key)
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// eventually waits for what must happen, however busy the machine is.
func eventually(t testing.TB, what string, happens func() bool) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); !happens(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("it never happens: %s", what)
		}
	}
}
