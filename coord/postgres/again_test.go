package postgres

import (
	"context"
	"net/url"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

// through connects as a URL says, but to another address.
func through(t testing.TB, as string) storecheck.Connecting {
	return func(ctx context.Context, address string, ttl time.Duration) (*coord.Client, error) {
		u, err := url.Parse(as)
		if err != nil {
			return nil, err
		}
		u.Host = address
		return Connect(ctx, u.String(), WithTTL(ttl), WithLongestTTL(10*time.Second), WithLogger(logger(t)))
	}
}

// tool runs a program that comes with the server.
func tool(t testing.TB, name string, args ...string) {
	t.Helper()
	path, err := servers.Find("postgres/usr/lib/postgresql/15/bin/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(within(t, time.Minute), path, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// alter runs a statement that the server refuses as long as somebody is in a database.
func alter(t testing.TB, m *servers.Member, database, sql string) {
	t.Helper()
	query(t, m.URL(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '`+database+`'`)
	eventually(t, sql, func() bool {
		c := dialed(t, m.URL())
		defer c.Close(context.Background())
		_, err := c.Exec(within(t, 30*time.Second), sql)
		return err == nil
	})
}

// What pg_dump --clean has written makes the table again, with the rows of its identity and its memory, and with their times.
func TestATableThatADumpHasMadeAgainLetsNobodyIn(t *testing.T) {
	t.Parallel()
	m := durable(t)
	opened(t, m.URL()).Close()
	dump := filepath.Join(t.TempDir(), "dump.sql")
	tool(t, "pg_dump", "--clean", "-t", "public.turnwise_register", "-f", dump, m.URL())
	storecheck.Newcomer(t, m.Addr(), through(t, m.URL()), func() {
		tool(t, "psql", "-q", "-v", "ON_ERROR_STOP=1", "-f", dump, m.URL())
	})
}

// In a copy of a database the table has even the same oid.
func TestADatabaseThatATemplateHasMadeAgainLetsNobodyIn(t *testing.T) {
	t.Parallel()
	m := durable(t)
	query(t, m.URL(), `CREATE DATABASE app`)
	app := storecheck.As(t, m.URL(), "", "", "app")
	s := opened(t, app)
	before, err := s.Memory(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	alter(t, m, "app", `CREATE DATABASE app_kept TEMPLATE app`)
	storecheck.Newcomer(t, m.Addr(), through(t, app), func() {
		query(t, m.URL(), `DROP DATABASE app WITH (FORCE)`)
		query(t, m.URL(), `CREATE DATABASE app TEMPLATE app_kept`)
	})
	if after, err := opened(t, app).Memory(within(t, 10*time.Second)); err != nil || after.ID == before.ID {
		t.Errorf("%v, and in the copy %v, %v", before, after, err)
	}
}

// Whoever puts a copy in the place of a damaged table, and then goes back, has the newcomers find what stood there before.
func TestATableThatIsRenamedBackLetsNobodyIn(t *testing.T) {
	t.Parallel()
	m := durable(t)
	opened(t, m.URL()).Close()
	query(t, m.URL(), `ALTER TABLE turnwise_register RENAME TO before`)
	storecheck.Newcomer(t, m.Addr(), through(t, m.URL()), func() {
		query(t, m.URL(), `BEGIN; ALTER TABLE turnwise_register RENAME TO between; ALTER TABLE before RENAME TO turnwise_register; COMMIT`)
	})
}

func TestADatabaseThatIsRenamedBackLetsNobodyIn(t *testing.T) {
	t.Parallel()
	m := durable(t)
	query(t, m.URL(), `CREATE DATABASE app`)
	app := storecheck.As(t, m.URL(), "", "", "app")
	opened(t, app).Close()
	alter(t, m, "app", `ALTER DATABASE app RENAME TO before`)
	query(t, m.URL(), `CREATE DATABASE app`)
	storecheck.Newcomer(t, m.Addr(), through(t, app), func() {
		alter(t, m, "app", `ALTER DATABASE app RENAME TO between`)
		alter(t, m, "before", `ALTER DATABASE before RENAME TO app`)
	})
}

// What a server does by itself has nobody wait, and what an operator does ends nothing.
func TestTidyingUpIsNoForgetting(t *testing.T) {
	t.Parallel()
	m := durable(t)
	c := storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) { return Connect(ctx, m.URL(), WithTTL(2*time.Second)) })
	s := opened(t, m.URL())
	for i := range 200 {
		h := storecheck.Locked(t, c, "orders")
		if i%2 == 0 {
			query(t, m.URL(), `CREATE TABLE IF NOT EXISTS other AS SELECT generate_series(1, 1000)`)
		}
		if err := h.Release(); err != nil {
			t.Fatal(err)
		}
	}
	h := storecheck.Locked(t, c, "orders")
	before, err := s.Memory(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for _, does := range []struct {
		sql   string
		waits bool
	}{
		{`VACUUM turnwise_register`, false},
		{`ANALYZE turnwise_register`, false},
		{`VACUUM (FREEZE, ANALYZE) turnwise_register`, false},
		{`VACUUM`, false},
		{`VACUUM (FREEZE, ANALYZE)`, false},
		{`VACUUM FREEZE pg_class`, false},
		{`VACUUM FREEZE pg_database`, false},
		{`VACUUM FULL pg_class`, false},
		{`REINDEX TABLE turnwise_register`, false},
		{`CHECKPOINT`, false},
		{`CREATE ROLE somebody`, false},
		{`GRANT SELECT ON turnwise_register TO somebody`, true},
		{`GRANT USAGE ON SCHEMA public TO somebody`, true},
		{`GRANT CONNECT ON DATABASE postgres TO somebody`, true},
		{`VACUUM FULL turnwise_register`, true},
		{`CLUSTER turnwise_register USING turnwise_register_pkey`, true},
		{`ALTER TABLE turnwise_register SET (fillfactor = 60)`, true},
	} {
		query(t, m.URL(), does.sql)
		other := opened(t, m.URL())
		is, err := other.Memory(within(t, 10*time.Second))
		other.Close()
		if err != nil || is.ID != before.ID {
			t.Errorf("%s: %v, and then %v, %v", does.sql, before, is, err)
		}
		if waits := is.For < time.Since(began)-time.Second/2; waits != does.waits && time.Since(began) > time.Second {
			t.Errorf("%s: a newcomer finds what is remembered for %v, after %v", does.sql, is.For, time.Since(began))
		}
		if does.waits {
			began = time.Now().Add(-time.Second) // what follows has to be seen to change it again
			time.Sleep(1100 * time.Millisecond)
		}
	}
	time.Sleep(2500 * time.Millisecond)
	if err := h.Err(); err != nil {
		t.Errorf("the hold has ended: %v", err)
	}
}

// A server that says its identifier to nobody can be any other: what a dump, or a replica, has put there says that the memory began here.
func TestAServerThatSaysNoNameMayBeAnother(t *testing.T) {
	t.Parallel()
	unnamed := func() (m *servers.Member, app string) {
		m = durable(t)
		query(t, m.URL(), `REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC`, `CREATE ROLE app LOGIN`, `GRANT CREATE ON SCHEMA public TO app`)
		return m, storecheck.As(t, m.URL(), "app", "", "")
	}
	one, app := unnamed()
	other, there := unnamed()
	s := opened(t, app)
	dump := filepath.Join(t.TempDir(), "dump.sql")
	tool(t, "pg_dump", "-t", "public.turnwise_register", "-f", dump, one.URL())
	tool(t, "psql", "-q", "-v", "ON_ERROR_STOP=1", "-f", dump, other.URL())
	here, err := s.Memory(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if m, err := opened(t, there).Memory(within(t, 10*time.Second)); err != nil || m.ID == here.ID {
		t.Errorf("%v, and at the other server %v, %v", here, m, err)
	}
	storecheck.Restarts(t, s, false, func() { one.Restart(t) })
}
