package mysql

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/verify/servers"
)

// Four clients count while the server and its connections are killed. A count whose answer was lost is not repeated.
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
			s := opened(t, as(t, m.URL(), "poor", "", ""), WithTable(freshTable()))
			var stop atomic.Bool
			var counted, doubtful atomic.Int64
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					cur := register.Item{Key: "n"}
					for !stop.Load() {
						var n int
						fmt.Sscan(string(cur.Value), &n)
						w := register.Swap{Key: "n", Old: cur.Version, Next: register.NewVersion(), Value: fmt.Append(nil, n+1)}
						it, err := s.Swap(within(t, 2*time.Second), w)
						switch {
						case err == nil:
							cur = it
							counted.Add(1)
							continue
						case errors.Is(err, register.ErrConflict):
							cur = it
							continue
						case errors.Is(err, register.ErrForgot):
							t.Error(err)
							return
						}
						// It is open. What is swapped next is swapped from what it left or did not touch. So a number is given to only one
						// client, and the sum is known up to the doubtful ones.
						doubtful.Add(1)
						for {
							if cur, err = s.Read(within(t, 2*time.Second), "n"); err == nil {
								break
							}
							time.Sleep(10 * time.Millisecond)
						}
					}
				})
			}
			for range 5 {
				time.Sleep(100 * time.Millisecond)
				kill()
			}
			stop.Store(true)
			all.Wait()
			var n int64
			fmt.Sscan(string(read(t, s, "n").Value), &n)
			if n < counted.Load() || n > counted.Load()+doubtful.Load() {
				t.Errorf("the register says %d; %d were counted, and %d may have been", n, counted.Load(), doubtful.Load())
			}
			t.Logf("counted %d, %d of them in doubt", n, doubtful.Load())
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
			before, err := s.Memory(within(t, 10*time.Second))
			if err != nil || before.For != register.Forever {
				t.Fatalf("the memory is %+v, %v", before, err)
			}
			if promised := s.Strength().Restart; (promised == driver.Remembers) != c.safe {
				t.Errorf("it promises that a restart %v", promised)
			}
			it := put(t, s, register.Item{Key: "k"}, "x")
			put(t, s, it, "y")
			time.Sleep(3 * time.Second) // the server counts seconds
			if again, err := opened(t, m.URL()).Memory(within(t, 10*time.Second)); err != nil || again.ID != before.ID {
				t.Errorf("another says that the memory is %+v, %v", again, err)
			}
			m.Kill()
			m.Restart(t)
			eventually(t, "it answers", func() bool {
				_, err = s.Read(within(t, time.Second), "k")
				return err == nil || errors.Is(err, register.ErrForgot)
			})
			if forgot := errors.Is(err, register.ErrForgot); forgot == c.safe {
				t.Errorf("it reads: %v", err)
			}
			after, err := s.Memory(within(t, 10*time.Second))
			if err != nil || (after.ID == before.ID) != c.safe || (after.For == register.Forever) != c.safe {
				t.Errorf("the memory is %+v, %v; it was %+v", after, err, before)
			}
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
		for what, call := range map[string]func(s *Store, it register.Item) error{
			"read": func(s *Store, it register.Item) error {
				_, err := s.Read(within(t, 10*time.Second), it.Key)
				return err
			},
			"make": func(s *Store, it register.Item) error {
				_, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: "new", Next: register.NewVersion()})
				return err
			},
			"change": func(s *Store, it register.Item) error {
				_, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: it.Key, Old: it.Version, Next: register.NewVersion()})
				return err
			},
			"remove": func(s *Store, it register.Item) error {
				_, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: it.Key, Old: it.Version})
				return err
			},
			"list": func(s *Store, it register.Item) error {
				return s.List(within(t, 10*time.Second), "", func(register.Item) bool { return true })
			},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				s := opened(t, m.URL(), WithTable(freshTable()))
				before, _ := s.Memory(within(t, 10*time.Second))
				it := put(t, s, register.Item{Key: "k"}, "x")
				text := strings.NewReplacer("{t}", s.table.quoted(), "{schema}", Schema(s.table.String())).Replace(sql)
				query(t, m.URL(), strings.Split(text, "\n;")...)
				if err := call(s, it); !errors.Is(err, register.ErrForgot) {
					t.Fatalf("it returns %v", err)
				}
				after, err := s.Memory(within(t, 10*time.Second))
				if err != nil || after.ID == before.ID || after.For > time.Minute {
					t.Errorf("the memory is %+v, %v; it was %+v", after, err, before)
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
	s := opened(t, as(t, m.URL(), "poor", "", ""))
	it := put(t, s, register.Item{Key: "k"}, "x")
	query(t, m.URL(), "SET GLOBAL read_only = 1")
	_, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: "k", Old: it.Version, Next: register.NewVersion()})
	if err == nil || !strings.Contains(err.Error(), "takes no writes") || errors.Is(err, register.ErrConflict) {
		t.Errorf("it returns %v", err)
	}
	query(t, m.URL(), "SET GLOBAL read_only = 0")
	put(t, s, it, "y")
}
