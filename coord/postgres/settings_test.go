package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

// hostile are defaults of a role that would break a swap, or make an answer mean less than it says.
var hostile = []string{
	"default_transaction_isolation = 'serializable'", "default_transaction_read_only = on", "default_transaction_deferrable = on",
	"synchronous_commit = off", "statement_timeout = '3s'", "lock_timeout = '1ms'", "idle_session_timeout = '1s'",
	"idle_in_transaction_session_timeout = '50ms'", "bytea_output = 'escape'", "search_path = trap, public", "row_security = off",
	"transform_null_equals = on", "array_nulls = off", "quote_all_identifiers = on", "standard_conforming_strings = off", "backslash_quote = off",
	"client_encoding = 'LATIN1'", "IntervalStyle = 'iso_8601'", "plan_cache_mode = force_generic_plan", "enable_indexscan = off",
	"enable_bitmapscan = off", "work_mem = '64kB'", "exit_on_error = on", "client_connection_check_interval = '1s'", "check_function_bodies = off",
	"tcp_user_timeout = 1", `client_min_messages = debug1`, "DateStyle = 'German'", "TimeZone = 'Asia/Kathmandu'", "extra_float_digits = -15",
}

func hostileRole(t testing.TB, m *servers.Member) (url string) {
	t.Helper()
	query(t, m.URL(), `CREATE ROLE hostile LOGIN SUPERUSER`, `CREATE SCHEMA trap`,
		`CREATE FUNCTION trap.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT now() - interval ''1 year'''`,
		`CREATE TABLE trap.turnwise_register (a int)`)
	for _, setting := range hostile {
		query(t, m.URL(), "ALTER ROLE hostile SET "+setting)
	}
	return storecheck.As(t, m.URL(), "hostile", "", "")
}

func TestTheDefaultsOfARoleDoNotMatter(t *testing.T) {
	m := durable(t)
	s := opened(t, hostileRole(t, m))
	s.countTogether(t, 8, 10)
	err := s.with(within(t, 10*time.Second), func(c *pgx.Conn, _ *memory) error {
		var commit, isolation string
		err := c.QueryRow(context.Background(), `SELECT current_setting('synchronous_commit'), current_setting('transaction_isolation')`).Scan(&commit, &isolation)
		if commit != "on" || isolation != "read committed" {
			t.Errorf("commits are %s, transactions %s", commit, isolation)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	time.Sleep(1500 * time.Millisecond) // longer than an idle session would live
	it := put(t, s, register.Item{Key: "later"}, "x")
	s.takesLong(t, m, it)
}

// takesLong has a swap wait for somebody's lock for longer than lock_timeout and statement_timeout.
func (s *Store) takesLong(t *testing.T, m *servers.Member, it register.Item) {
	t.Helper()
	ctx := within(t, 20*time.Second)
	c := dialed(t, m.URL())
	defer c.Close(ctx)
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, `SELECT FROM `+s.table.quoted()+` WHERE key = $1 FOR UPDATE`, []byte(it.Key)); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	time.AfterFunc(4*time.Second, func() {
		_ = tx.Rollback(ctx)
		close(over)
	})
	put(t, s, it, "after a while")
	<-over
}

// countTogether has several clients count in one register, each by reading what a conflict brings.
func (s *Store) countTogether(t *testing.T, who, each int) {
	t.Helper()
	key := fmt.Sprint("count ", register.NewVersion())
	var all sync.WaitGroup
	for range who {
		all.Go(func() {
			cur := register.Item{Key: key}
			for range each {
				for {
					var n int
					fmt.Sscan(string(cur.Value), &n)
					w := register.Swap{Key: key, Old: cur.Version, Next: register.NewVersion(), Value: fmt.Append(nil, n+1),
						Notes: []register.Note{{Topic: key, Text: fmt.Append(nil, n+1)}}}
					var err error
					if cur, err = s.Swap(within(t, 20*time.Second), w); err == nil {
						break
					} else if !errors.Is(err, register.ErrConflict) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	if it := read(t, s, key); string(it.Value) != fmt.Sprint(who*each) {
		t.Errorf("they have counted to %s, want %d", it.Value, who*each)
	}
}

func TestAnyWayToSendAQueryWorks(t *testing.T) {
	m := sharedServer(t)
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			s := opened(t, m.URL()+"&default_query_exec_mode="+mode, WithTable(freshTable()))
			s.countTogether(t, 4, 10)
			worksThroughout(t, s)
		})
	}
}

// worksThroughout does a bit of everything.
func worksThroughout(t *testing.T, s *Store) {
	t.Helper()
	prefix := fmt.Sprintf("all %x/", register.NewVersion())
	heard := make(chan string, 10)
	stop, err := s.Listen(within(t, 10*time.Second), prefix, func(b []byte) { heard <- string(b) })
	if err != nil && !errors.Is(err, register.ErrMute) {
		t.Fatal(err)
	}
	it := put(t, s, register.Item{Key: prefix + "k"}, "\x00\xff\\x41'", register.Note{Topic: prefix, Text: []byte("made")})
	if got := read(t, s, it.Key); string(got.Value) != string(it.Value) || got.Version != it.Version || got.Age < 0 || got.Age > time.Minute {
		t.Errorf("read: %+v", got)
	}
	it = put(t, s, it, "changed", register.Note{Topic: prefix, Text: []byte("changed")})
	by := register.NewVersion()
	lost := register.Swap{Key: it.Key, Old: register.NewVersion(), Next: register.NewVersion(), By: by, Reserve: register.MostReserve * 8 / 10}
	if got, err := s.Swap(within(t, 10*time.Second), lost); !errors.Is(err, register.ErrConflict) || got.Version != it.Version {
		t.Errorf("a conflict: %+v, %v", got, err)
	}
	if _, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: it.Key, Old: it.Version, Next: register.NewVersion()}); !errors.Is(err, register.ErrConflict) {
		t.Errorf("the swap of somebody else while it is reserved: %v", err)
	}
	gone := register.Swap{Key: it.Key, Old: it.Version, By: by, Notes: []register.Note{{Topic: prefix, Text: []byte("gone")}}}
	for range 2 {
		if got, err := s.Swap(within(t, 10*time.Second), gone); err != nil || !got.Version.IsZero() {
			t.Errorf("remove: %+v, %v", got, err)
		}
	}
	put(t, s, register.Item{Key: prefix + "l"}, "1")
	n := 0
	if err := s.List(within(t, 10*time.Second), prefix, func(register.Item) bool { n++; return true }); err != nil || n != 1 {
		t.Errorf("list: %d, %v", n, err)
	}
	if stop == nil {
		return
	}
	for _, want := range []string{"made", "changed", "gone"} {
		select {
		case got := <-heard:
			if got != want {
				t.Errorf("heard %q, want %q", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("nobody told of %q", want)
		}
	}
	stop()
}

// Work that has all of the pool's connections and waits for a lock must not keep the lock from its own connections.
func TestAStoreDoesNotWaitForTheUsersPool(t *testing.T) {
	m := sharedServer(t)
	cfg, err := pgxpool.ParseConfig(m.URL())
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 1
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	cfg.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	cfg.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { return false, errors.New("not for locks") }
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s, err := openLike(within(t, 20*time.Second), pool, WithTable(freshTable()), WithLogger(logger(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	worksThroughout(t, s)
	if n := pool.Stat().AcquireCount(); n != 0 {
		t.Errorf("it has taken %d connections of the user's pool", n)
	}
}
