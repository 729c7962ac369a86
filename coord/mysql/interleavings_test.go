package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
	"github.com/turnwise/turnwise/internal/storecheck"
)

// meddler is a transaction of somebody else on the same table.
type meddler struct {
	t  *testing.T
	tx *sql.Tx
	s  *Store
}

func meddle(t *testing.T, s *Store, url string) *meddler {
	t.Helper()
	c := dialed(t, url)
	if _, err := c.ExecContext(within(t, 10*time.Second), "SET SESSION TRANSACTION READ WRITE"); err != nil {
		t.Fatal(err)
	}
	tx, err := c.BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return &meddler{t, tx, s}
}

func (m *meddler) exec(sql string) {
	m.t.Helper()
	if _, err := m.tx.Exec(strings.ReplaceAll(sql, "{t}", m.s.table.quoted())); err != nil {
		m.t.Fatal(err)
	}
}

type answer struct {
	it  register.Item
	err error
}

// begin begins a swap, and returns when it waits for a lock.
func begin(t *testing.T, s *Store, url string, w register.Swap) chan answer {
	t.Helper()
	done := make(chan answer, 1)
	go func() {
		it, err := s.Swap(within(t, 30*time.Second), w)
		done <- answer{it, err}
	}()
	eventually(t, "the swap waits for the lock", func() bool {
		time.Sleep(150 * time.Millisecond) // asked again within 100 ms, the server says what it said before
		return query(t, url, "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'") != "0"
	})
	return done
}

// What a conflict brings is what the other has left.
func TestAConflictBringsWhatTheOtherHasLeft(t *testing.T) {
	url := sharedServer(t).URL()
	s := opened(t, url, WithTable(freshTable()))
	for what, sql := range map[string]string{
		"changed": `UPDATE {t} SET version = 77, value = 'theirs' WHERE name = 'k'`,
		"removed": `DELETE FROM {t} WHERE name = 'k'`,
	} {
		t.Run(what, func(t *testing.T) {
			it := put(t, s, register.Item{Key: "k"}, "ours")
			m := meddle(t, s, url)
			m.exec(sql)
			done := begin(t, s, url, register.Swap{Key: it.Key, Old: it.Version, Next: register.NewVersion(), Value: []byte("too late")})
			if err := m.tx.Commit(); err != nil {
				t.Fatal(err)
			}
			a := <-done
			want := register.Item{Key: it.Key}
			if what == "changed" {
				want.Value, want.Version = []byte("theirs"), storekit.Version(77)
			}
			if !errors.Is(a.err, register.ErrConflict) || a.it.Version != want.Version || string(a.it.Value) != string(want.Value) {
				t.Errorf("it returns %+v, %v; want %+v", a.it, a.err, want)
			}
			if what == "changed" {
				remove(t, s, read(t, s, it.Key))
			}
		})
	}
}

// The other gives up, after more time than a statement waits for a lock.
func TestASwapThatWaitedForNothingIsApplied(t *testing.T) {
	url := sharedServer(t).URL()
	s := opened(t, url, WithTable(freshTable()))
	it := put(t, s, register.Item{Key: "k"}, "ours")
	m := meddle(t, s, url)
	m.exec(`UPDATE {t} SET version = 77 WHERE name = 'k'`)
	done := begin(t, s, url, register.Swap{Key: it.Key, Old: it.Version, Next: register.NewVersion(), Value: []byte("in time")})
	time.Sleep(6 * time.Second)
	_ = m.tx.Rollback()
	if a := <-done; a.err != nil {
		t.Errorf("it returns %v", a.err)
	}
}

// Many make and remove the same registers, which is where InnoDB sees deadlocks. Each is made by one at a time.
func TestRegistersThatComeAndGo(t *testing.T) {
	url := sharedServer(t).URL()
	table := freshTable()
	var all sync.WaitGroup
	var mu sync.Mutex
	has := make(map[string]bool)
	for range 6 {
		s := opened(t, url, WithTable(table))
		all.Go(func() {
			for n := range 150 {
				key := fmt.Sprint("k", n%3)
				it, err := s.Swap(within(t, 20*time.Second), register.Swap{Key: key, Next: register.NewVersion(), Value: []byte("x")})
				if errors.Is(err, register.ErrConflict) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if has[key] {
					t.Errorf("%s was made while it stood", key)
				}
				has[key] = true
				mu.Unlock()
				mu.Lock()
				has[key] = false
				mu.Unlock()
				if _, err := s.Swap(within(t, 20*time.Second), register.Swap{Key: key, Old: it.Version}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// These would break a swap, or make an answer mean less than it says.
func TestTheDefaultsOfTheServerDoNotMatter(t *testing.T) {
	m := durable(t)
	isolation, own := "tx_isolation", "tx_read_only = 1, max_statement_time = 0.02"
	if isMySQL(t, m) {
		isolation, own = "transaction_isolation", "transaction_read_only = 1, max_execution_time = 20"
	}
	query(t, m.URL(), `CREATE USER poor@'127.0.0.1'`, `GRANT ALL ON turnwise.* TO poor@'127.0.0.1'`,
		`SET GLOBAL `+isolation+` = 'SERIALIZABLE', `+own+`, autocommit = 0, sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH',
			innodb_lock_wait_timeout = 1, lock_wait_timeout = 1, sql_select_limit = 1, sql_safe_updates = 1,
			time_zone = '+05:45', character_set_server = 'gbk', init_connect = 'SET autocommit = 0', wait_timeout = 1`)
	s := opened(t, storecheck.As(t, m.URL(), "poor", "", "")+"?charset=gbk&clientFoundRows=true&multiStatements=true&parseTime=true&time_zone=%27%2B03:00%27", WithConnections(8))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			cur := register.Item{Key: "\u4e00'\\n"}
			for range 10 {
				for {
					var n int
					fmt.Sscan(strings.TrimPrefix(string(cur.Value), "\xbf'\\"), &n)
					var err error
					w := register.Swap{Key: cur.Key, Old: cur.Version, Next: register.NewVersion(), Value: fmt.Append(nil, "\xbf'\\", n+1)}
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
	it := read(t, s, "\u4e00'\\n")
	if string(it.Value) != "\xbf'\\80" || it.Age > time.Minute {
		t.Errorf("they have counted to %q, %v ago", it.Value, it.Age)
	}
	n := 0
	for i := range 5 {
		put(t, s, register.Item{Key: fmt.Sprint("many/", i)}, "x")
	}
	if err := s.List(within(t, 10*time.Second), "many/", func(register.Item) bool { n++; return true }); err != nil || n != 5 {
		t.Errorf("list: %d, %v", n, err)
	}
	if err := s.with(within(t, 10*time.Second), func(c *conn, _ *memory) error {
		return c.query(t.Context(), "SELECT @@"+isolation, nil, func(row []sqldriver.Value) error {
			if text(row[0]) != "READ-COMMITTED" {
				t.Errorf("transactions are %s", text(row[0]))
			}
			return nil
		})
	}); err != nil {
		t.Error(err)
	}
	time.Sleep(1500 * time.Millisecond) // until the server has hung up
	it = put(t, s, it, "later")
	other := meddle(t, s, m.URL())
	other.exec("UPDATE {t} SET value = 'z' WHERE name = 'many/1'")
	time.AfterFunc(1500*time.Millisecond, func() { _ = other.tx.Rollback() })
	put(t, s, read(t, s, "many/1"), "after a while")
}
