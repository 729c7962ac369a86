package mysql

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/servers"
)

// through connects to a server at another address.
func through(t testing.TB, m *servers.Member, longest time.Duration, opts ...Option) storecheck.Connecting {
	return func(ctx context.Context, address string, ttl time.Duration) (*coord.Client, error) {
		u, err := url.Parse(m.URL())
		if err != nil {
			return nil, err
		}
		u.Host = address
		return Connect(ctx, u.String(), append([]Option{WithTTL(ttl), WithLongestTTL(longest), WithLogger(logger(t))}, opts...)...)
	}
}

// What mysqldump has written drops the table and makes it again, with the rows of its identity and its memory, and with their times.
// Whatever the zone is in which the server tells when that was.
func TestATableThatADumpHasMadeAgainLetsNobodyIn(t *testing.T) {
	for _, zone := range []string{"SYSTEM", "+13:00", "-11:00"} {
		for _, table := range []string{"turnwise_register", "other.register"} {
			t.Run(zone+" "+table, func(t *testing.T) {
				t.Parallel()
				m := durable(t)
				query(t, m.URL(), "SET GLOBAL time_zone = '"+zone+"'", "CREATE DATABASE other")
				opened(t, m.URL(), WithTable(table)).Close()
				query(t, m.URL(), "CREATE DATABASE dump", "CREATE TABLE dump.t LIKE "+table, "INSERT INTO dump.t SELECT * FROM "+table)
				time.Sleep(3 * time.Second)
				storecheck.Newcomer(t, m.Addr(), through(t, m, 10*time.Second, WithTable(table)), func() {
					query(t, m.URL(), "DROP TABLE IF EXISTS "+table, "CREATE TABLE "+table+" LIKE dump.t", "INSERT INTO "+table+" SELECT * FROM dump.t")
				})
			})
		}
	}
}

// Whoever puts a copy in the place of a damaged table, and then goes back, has the newcomers find what stood there before.
func TestATableThatIsRenamedBackLetsNobodyIn(t *testing.T) {
	t.Parallel()
	m := durable(t)
	opened(t, m.URL()).Close()
	query(t, m.URL(), "RENAME TABLE turnwise_register TO kept")
	storecheck.Newcomer(t, m.Addr(), through(t, m, 10*time.Second), func() {
		query(t, m.URL(), "RENAME TABLE turnwise_register TO meanwhile, kept TO turnwise_register")
	})
}

// What a server does by itself has nobody wait, and what an operator does ends nothing.
func TestTidyingUpIsNoForgetting(t *testing.T) {
	t.Parallel()
	m := durable(t)
	c := storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) { return Connect(ctx, m.URL(), WithTTL(2*time.Second)) })
	h := storecheck.Locked(t, c, "orders")
	s := opened(t, m.URL())
	before, err := s.Memory(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for _, does := range []struct {
		sql   string
		waits bool
	}{
		{"ANALYZE TABLE turnwise_register", false},
		{"CHECK TABLE turnwise_register", false},
		{"FLUSH TABLES", false},
		{"FLUSH LOGS", false},
		{"CREATE USER somebody", false},
		{"GRANT SELECT ON turnwise_register TO somebody", false},
		{"OPTIMIZE TABLE turnwise_register", true},
		{"ALTER TABLE turnwise_register COMMENT = 'ours'", true},
	} {
		time.Sleep(2500 * time.Millisecond) // it tells whole seconds
		if _, err := dialed(t, m.URL()).ExecContext(within(t, time.Minute), does.sql); err != nil {
			t.Fatalf("%s: %v", does.sql, err)
		}
		other := opened(t, m.URL())
		is, err := other.Memory(within(t, 10*time.Second))
		other.Close()
		if err != nil || is.ID != before.ID {
			t.Errorf("%s: %v, and then %v, %v", does.sql, before, is, err)
		}
		if waits := is.For < 1200*time.Millisecond; waits != does.waits {
			t.Errorf("%s: a newcomer finds what is remembered for %v", does.sql, is.For)
		}
	}
	if err := h.Err(); err != nil {
		t.Errorf("the hold has ended: %v", err)
	}
}

// Somebody has the server wait for its disk no longer, while the connections stay, and then again.
func TestAServerThatNoLongerWaitsForItsDiskIsAnother(t *testing.T) {
	for name, config := range map[string]struct{ opts, off, on string }{
		"the log":        {"log_bin=log", "innodb_flush_log_at_trx_commit = 0", "innodb_flush_log_at_trx_commit = 1"},
		"the binary log": {"log_bin=log", "sync_binlog = 0", "sync_binlog = 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := durable(t, servers.Config(config.opts, "binlog_format=ROW", "sync_binlog=1"))
			for what, call := range storecheck.Calls {
				s := opened(t, m.URL(), WithTable(freshTable()))
				it := put(t, s, register.Item{Key: "k"}, "x")
				for _, set := range []string{config.off, config.on} {
					before, err := s.Memory(within(t, 10*time.Second))
					if err != nil {
						t.Fatal(err)
					}
					query(t, m.URL(), "SET GLOBAL "+set)
					since := time.Now()
					if err := call(t, s, it); !errors.Is(err, register.ErrForgot) {
						t.Errorf("%s after %s: %v", what, set, err)
					}
					if after, err := s.Memory(within(t, 10*time.Second)); err != nil || after.ID == before.ID || after.For > time.Since(since) {
						t.Errorf("%s after %s: %v, and then %v, %v", what, set, before, after, err)
					}
				}
			}
		})
	}
}

// A server that does not wait for its disk crashes, and is started with the settings that it had before. It has lost what it granted.
func TestNobodyEntersWhenTheDiskWasNotWaitedForUntilTheServerCrashes(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	m := durable(t, servers.Dir("/tmp")) // in memory the log would be mapped, and nothing of it lost
	p := faultproxy.Start(t, m.Addr())
	connect := through(t, m, ttl)
	to := func(address string) *coord.Client {
		return storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) { return connect(ctx, address, ttl) })
	}
	cutOff, other := to(p.Addr()), to(m.Addr())
	storecheck.Locked(t, other, "something else")
	storecheck.Locked(t, cutOff, "warm")
	query(t, m.URL(), "SET GLOBAL innodb_flush_log_at_trx_commit = 0", "SET GLOBAL innodb_flush_log_at_timeout = 2700")
	query(t, m.URL(), "FLUSH ENGINE LOGS")
	if h, err := mutex.New(cutOff, "orders").TryLock(within(t, 10*time.Second)); err == nil {
		t.Errorf("a lock, token %d, is granted before all can know that it may be lost", h.Token())
		_ = h.Release()
	}
	holder, err := mutex.New(cutOff, "orders").Lock(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	p.Blackhole()
	m.Kill()
	if err := m.Start(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	h, err := mutex.New(other, "orders").Lock(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if holder.Err() == nil {
		t.Errorf("two hold, %v after the start, with tokens %d and %d", time.Since(began), holder.Token(), h.Token())
	}
}
