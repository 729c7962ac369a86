package mysql

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// Four clients count while the server and its connections are killed.
func TestNothingIsLostOrDoneTwiceWhileConnectionsAreKilled(t *testing.T) {
	m := durable(t)
	kills := map[string]func(){
		"queries and connections": func() {
			_, _ = dialed(t, m.URL()).ExecContext(t.Context(), "KILL USER poor")
		},
		"the server": func() { m.Kill(); m.Restart(t) },
		"stopped":    func() { m.Freeze(); time.Sleep(100 * time.Millisecond); m.Thaw() },
	}
	query(t, m.URL(), `CREATE USER poor@'127.0.0.1'`, `GRANT ALL ON turnwise.* TO poor@'127.0.0.1'`)
	for name, kill := range kills {
		t.Run(name, func(t *testing.T) {
			s := opened(t, storecheck.As(t, m.URL(), "poor", "", ""), WithTable(freshTable()))
			storecheck.Count(t, kill, s, s, s, s)
		})
	}
}

// A restart forgets nothing. If the server does not wait for the disk, it may.
func TestARestartIsOnlyRememberedIfTheDiskIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		opts []servers.Option
		safe bool
	}{
		"safe":                  {[]servers.Option{servers.Fsync()}, true},
		"a log that is synced":  {[]servers.Option{servers.Fsync(), servers.Config("log_bin=log", "sync_binlog=1", "binlog_format=MIXED")}, true},
		"no waiting":            {nil, false},
		"a log that may be cut": {[]servers.Option{servers.Fsync(), servers.Config("log_bin=log", "sync_binlog=0", "binlog_format=ROW")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := servers.MariaDB(t, c.opts...).Member(0)
			s := opened(t, m.URL())
			if promised := s.Strength().Restart; (promised == driver.Remembers) != c.safe {
				t.Errorf("it promises that a restart %v", promised)
			}
			it := put(t, s, register.Item{Key: "k"}, "x")
			put(t, s, it, "y")
			time.Sleep(3 * time.Second) // the server counts seconds
			before, _ := s.Memory(within(t, 10*time.Second))
			if again, err := opened(t, m.URL()).Memory(within(t, 10*time.Second)); err != nil || again.ID != before.ID {
				t.Errorf("another says that the memory is %+v, %v; it was %+v", again, err, before)
			}
			storecheck.Restarts(t, s, c.safe, func() { m.Restart(t) })
		})
	}
}

// Somebody empties the table, or creates it again, while the connections stay.
func TestATableThatIsEmptiedHasForgotten(t *testing.T) {
	m := sharedServer(t)
	for name, sql := range map[string]string{
		"emptied":   "TRUNCATE {t}",
		"made anew": "DROP TABLE {t}\n;{schema}",
		"deleted":   "DELETE FROM {t}",
	} {
		for what, call := range storecheck.Calls {
			t.Run(name+", "+what, func(t *testing.T) {
				s := opened(t, m.URL(), WithTable(freshTable()))
				before, _ := s.Memory(within(t, 10*time.Second))
				it := put(t, s, register.Item{Key: "k"}, "x")
				since := time.Now()
				text := strings.NewReplacer("{t}", s.table.quoted(), "{schema}", Schema(s.table.String())).Replace(sql)
				query(t, m.URL(), strings.Split(text, "\n;")...)
				newcomer := opened(t, m.URL(), WithTable(s.table.String()))
				if err := call(t, s, it); !errors.Is(err, register.ErrForgot) {
					t.Fatalf("it returns %v", err)
				}
				for _, s := range []*Store{newcomer, s} {
					after, err := s.Memory(within(t, 10*time.Second))
					if err != nil || after.ID == before.ID || after.For > time.Since(since) {
						t.Errorf("the memory is %+v, %v, %v later; it was %+v", after, err, time.Since(since), before)
					}
				}
				remove(t, s, put(t, s, read(t, s, "k"), "again"))
			})
		}
	}
}

// Statements reach another server unnoticed, as they may through a proxy. It has the same table.
func TestAnotherServerBehindTheSameConnection(t *testing.T) {
	m := durable(t)
	s := opened(t, m.URL())
	it := put(t, s, register.Item{Key: "k"}, "x")
	query(t, m.URL(), "SET GLOBAL server_id = 77")
	if got, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: "k", Old: it.Version, Next: register.NewVersion()}); !errors.Is(err, register.ErrForgot) {
		t.Errorf("a swap returns %+v, %v", got, err)
	}
	if mem, err := s.Memory(within(t, 10*time.Second)); err != nil || mem.For > time.Minute {
		t.Errorf("the memory is %+v, %v", mem, err)
	}
	if got := read(t, s, "k"); got.Version != it.Version {
		t.Errorf("the swap was applied there: %+v", got)
	}
}

// A server stops being the primary, while the connections stay.
func TestAServerThatIsMadeReadOnly(t *testing.T) {
	m := durable(t)
	query(t, m.URL(), `CREATE USER poor@'127.0.0.1'`, `GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON turnwise.* TO poor@'127.0.0.1'`)
	s := opened(t, storecheck.As(t, m.URL(), "poor", "", ""))
	it := put(t, s, register.Item{Key: "k"}, "x")
	query(t, m.URL(), "SET GLOBAL read_only = 1")
	_, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: "k", Old: it.Version, Next: register.NewVersion()})
	if err == nil || !strings.Contains(err.Error(), "takes no writes") || errors.Is(err, register.ErrConflict) {
		t.Errorf("it returns %v", err)
	}
	query(t, m.URL(), "SET GLOBAL read_only = 0")
	put(t, s, it, "y")
}

func TestAClockThatWasPutRightKeepsNobody(t *testing.T) {
	m := sharedServer(t)
	table := freshTable()
	s := opened(t, m.URL(), WithTable(table))
	c, err := Connect(within(t, 20*time.Second), m.URL(), WithTable(table), WithTTL(2*time.Second), WithLongestTTL(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	storecheck.PutRight(t, s, c,
		func() {
			query(t, m.URL(), `UPDATE `+s.table.quoted()+` SET since = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE name = x'00'`)
		},
		func() {
			query(t, m.URL(), `UPDATE `+s.table.quoted()+` SET reserved_by = 1, reserved_until = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE name = 'reserved'`)
		})
}

// The server was started with a clock that was an hour ahead, and that was put right. By its clock it will be started in an hour, which
// it tells as a number without a sign.
func TestAServerThatSeemsToBeStartedLater(t *testing.T) {
	for name, opts := range map[string][]servers.Option{"durable": {servers.Fsync(), servers.Clocks()}, "forgetful": {servers.Clocks()}} {
		t.Run(name, func(t *testing.T) {
			m := servers.MariaDB(t, opts...).Member(0)
			s := opened(t, m.URL())
			query(t, m.URL(), `UPDATE `+s.table.quoted()+` SET since = since - INTERVAL 10 DAY WHERE name = x'00'`) // it was made before
			before, err := s.Memory(within(t, 10*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			if err := m.SetClock(-time.Hour); err != nil {
				t.Fatal(err)
			}
			c, err := Connect(within(t, 20*time.Second), m.URL(), WithTTL(2*time.Second), WithLongestTTL(2*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := mutex.New(c, "a").Lock(within(t, 30*time.Second)); err != nil {
				t.Errorf("lock: %v", err)
			}
			if after, err := s.Memory(within(t, 10*time.Second)); err != nil || after.ID != before.ID || after.For > -30*time.Minute {
				t.Errorf("the memory is %+v, %v, and was %+v", after, err, before)
			}
		})
	}
}

func TestAConnectionThatIsSlowToBeMadeIsMade(t *testing.T) {
	storecheck.SlowToConnect(t, durable(t), 100*time.Millisecond, func(ctx context.Context, url string) (register.Store, error) { return Open(ctx, url) })
}
