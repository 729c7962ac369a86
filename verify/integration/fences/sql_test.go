package fences

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
	"github.com/turnwise/turnwise/fence/sqlfence"
	"github.com/turnwise/turnwise/verify/servers"
)

// database is one of the databases that a fence is for.
type database struct {
	*testing.T
	dialect sqlfence.Dialect
	db      *sql.DB
	fences  *sqlfence.Fence
}

var databases = map[string]func(t *testing.T) (sqlfence.Dialect, *sql.DB){
	"PostgreSQL": func(t *testing.T) (sqlfence.Dialect, *sql.DB) {
		return sqlfence.Postgres, opened(t, "pgx", servers.Postgres(t, servers.Shared()).URL())
	},
	"MariaDB": func(t *testing.T) (sqlfence.Dialect, *sql.DB) {
		return sqlfence.MySQL, opened(t, "mysql", mysqlAddress(servers.MariaDB(t, servers.Shared()).URL()))
	},
	"MariaDB, rows found": func(t *testing.T) (sqlfence.Dialect, *sql.DB) {
		return sqlfence.MySQL, opened(t, "mysql", mysqlAddress(servers.MariaDB(t, servers.Shared()).URL(), "clientFoundRows=true"))
	},
	"MariaDB, other settings": func(t *testing.T) (sqlfence.Dialect, *sql.DB) {
		url := servers.MariaDB(t, servers.Shared()).URL()
		var version string
		require.NoError(t, opened(t, "mysql", mysqlAddress(url)).QueryRow("SELECT VERSION()").Scan(&version))
		mode := "ANSI"
		if strings.Contains(version, "MariaDB") { // and not MySQL in its place
			mode = "SIMULTANEOUS_ASSIGNMENT"
		}
		return sqlfence.MySQL, opened(t, "mysql", mysqlAddress(url, "charset=utf8", "interpolateParams=true", "sql_mode=%27"+mode+"%27"))
	},
	"SQLite": func(t *testing.T) (sqlfence.Dialect, *sql.DB) {
		return sqlfence.SQLite, opened(t, "sqlite", filepath.Join(t.TempDir(), "db")+
			"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)")
	},
}

func opened(t *testing.T, driver, address string) *sql.DB {
	db, err := sql.Open(driver, address)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// onEveryDatabase calls f with a table that nobody has used.
func onEveryDatabase(t *testing.T, f func(d *database)) {
	for name, open := range databases {
		t.Run(name, func(t *testing.T) {
			d := &database{T: t}
			d.dialect, d.db = open(t)
			var err error
			d.fences, err = sqlfence.New(d.dialect, fmt.Sprintf("fence_%d", rand.Uint64()))
			require.NoError(t, err)
			require.NoError(t, d.fences.Create(t.Context(), d.db))
			f(d)
		})
	}
}

func (d *database) begin(opts *sql.TxOptions) *sql.Tx {
	d.Helper()
	tx, err := d.db.BeginTx(d.Context(), opts)
	require.NoError(d, err)
	d.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// pass passes in a transaction of its own.
func (d *database) pass(line string, s fence.Stamp) error {
	return d.fences.On(d.db).Pass(d.Context(), line, s)
}

func TestSQLRefusesWhatIsStaleLineByLine(t *testing.T) {
	onEveryDatabase(t, func(d *database) {
		assert.NoError(d, d.pass("a", fence.Stamp{Token: 5}))
		assert.NoError(d, d.pass("a", fence.Stamp{Token: 5}), "the same holder again")
		assert.NoError(d, d.pass("a", fence.Stamp{Token: 5}))
		assert.NoError(d, d.pass("b", fence.Stamp{Token: 1}), "another line")
		assert.EqualError(d, d.pass("a", fence.Stamp{Token: 4}), `turnwise: pass "a": token is stale: 4, and 5 has been seen`)
		assert.ErrorIs(d, d.pass("a", fence.Stamp{Token: 4}), coord.ErrStale)
		assert.NoError(d, d.pass("a", fence.Stamp{Token: 7}))
		assert.ErrorIs(d, d.pass("a", fence.Stamp{Token: 6}), coord.ErrStale)

		assert.NoError(d, d.pass("a", fence.Stamp{Epoch: 1, Token: 2}), "on another engine")
		assert.ErrorIs(d, d.pass("a", fence.Stamp{Token: math.MaxInt64}), coord.ErrStale)
		assert.ErrorIs(d, d.pass("a", fence.Stamp{Epoch: 1, Token: 1}), coord.ErrStale)
		assert.NoError(d, d.pass("a", fence.Stamp{Epoch: math.MaxUint32, Token: math.MaxInt64 - 1}))
		assert.NoError(d, d.pass("a", fence.Stamp{Epoch: math.MaxUint32, Token: math.MaxInt64}))
		assert.ErrorIs(d, d.pass("a", fence.Stamp{Epoch: math.MaxUint32, Token: math.MaxInt64 - 1}), coord.ErrStale)

		assert.ErrorIs(d, d.pass("a", fence.Stamp{}), coord.ErrInvalid)
		assert.ErrorIs(d, d.pass("", fence.Stamp{Token: 1}), coord.ErrInvalidName)
		assert.ErrorIs(d, d.fences.Pass(d.Context(), nil, "a", fence.Stamp{Token: 1}), coord.ErrInvalid)
	})
}

// Names that differ in a byte are different lines.
func TestSQLKeepsNamesApart(t *testing.T) {
	long := strings.Repeat(strings.Repeat("x", 255)+"/", 3) + strings.Repeat("y", 254)
	names := []string{"a", "A", "a ", "á", "a\u0301", "ß", "ss", "😀", "😁", "日本", "100%", `it's "quoted" \ ` + "`so`", long, long + "z"}
	onEveryDatabase(t, func(d *database) {
		for i, name := range names {
			assert.NoError(d, d.pass(name, fence.Stamp{Token: coord.Token(100 - i)}), name)
		}
		for i, name := range names {
			assert.ErrorIs(d, d.pass(name, fence.Stamp{Token: coord.Token(99 - i)}), coord.ErrStale, name)
			assert.NoError(d, d.pass(name, fence.Stamp{Token: coord.Token(100 - i)}), name)
		}
	})
}

func TestSQLForgetsWhatIsRolledBack(t *testing.T) {
	onEveryDatabase(t, func(d *database) {
		for _, name := range []string{"new", "old"} {
			if name == "old" {
				require.NoError(d, d.pass(name, fence.Stamp{Token: 1}))
			}
			tx := d.begin(nil)
			require.NoError(d, d.fences.Pass(d.Context(), tx, name, fence.Stamp{Token: 9}))
			require.NoError(d, tx.Rollback())
			assert.NoError(d, d.pass(name, fence.Stamp{Token: 2}))
		}
	})
}

// At every level of isolation, the second transaction waits for the first to end, and goes by what that has left.
func TestSQLLetsNobodyPassBesideAnother(t *testing.T) {
	levels := []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
	onEveryDatabase(t, func(d *database) {
		for _, level := range levels {
			if d.dialect == sqlfence.SQLite && level != sql.LevelDefault && level != sql.LevelSerializable {
				continue
			}
			for _, known := range []bool{false, true} { // whether the line has been used before
				for _, commit := range []bool{true, false} {
					for _, mine := range []coord.Token{4, 6} {
						d.Run(fmt.Sprintf("%v, known %v, commit %v, %d after 5", level, known, commit, mine), func(t *testing.T) {
							line := fmt.Sprintf("%v/%v/%v/%d", level, known, commit, mine)
							if known {
								require.NoError(t, d.pass(line, fence.Stamp{Token: 1}))
							}
							first := d.begin(&sql.TxOptions{Isolation: level})
							require.NoError(t, d.fences.Pass(d.Context(), first, line, fence.Stamp{Token: 5}))
							second, passed := d.begin(&sql.TxOptions{Isolation: level}), make(chan error, 1)
							go func() { passed <- d.fences.Pass(d.Context(), second, line, fence.Stamp{Token: mine}) }()
							select {
							case err := <-passed:
								t.Fatalf("it did not wait: %v", err)
							case <-time.After(100 * time.Millisecond):
							}
							if commit {
								require.NoError(t, first.Commit())
							} else {
								require.NoError(t, first.Rollback())
							}
							err := <-passed
							if err == nil {
								err = second.Commit()
							}
							retry := strings.Contains(fmt.Sprint(err), "could not serialize") || strings.Contains(fmt.Sprint(err), "changed since last read")
							switch {
							case mine == 4 && commit && !retry:
								assert.ErrorIs(t, err, coord.ErrStale)
							case mine == 4 && commit: // refused in another way
							case retry && commit:
							default:
								assert.NoError(t, err)
							}
							_ = second.Rollback()
							if commit {
								assert.ErrorIs(t, d.pass(line, fence.Stamp{Token: 4}), coord.ErrStale)
							}
						})
					}
				}
			}
		}
	})
}

// What is read before Pass is as old as the transaction; what is read after Pass is what the others have left.
func TestSQLLetsReadWhatEarlierHoldersHaveLeft(t *testing.T) {
	onEveryDatabase(t, func(d *database) {
		table := fmt.Sprintf("data_%d", rand.Uint64())
		_, err := d.db.Exec("CREATE TABLE " + table + " (n BIGINT)")
		require.NoError(d, err)
		_, err = d.db.Exec("INSERT INTO " + table + " VALUES (0)")
		require.NoError(d, err)
		first := d.begin(nil)
		require.NoError(d, d.fences.Pass(d.Context(), first, "a", fence.Stamp{Token: 1}))
		second, read := d.begin(nil), make(chan int, 1)
		go func() {
			n := -1
			if err := d.fences.Pass(d.Context(), second, "a", fence.Stamp{Token: 2}); err != nil {
				d.Error(err)
			} else if err := second.QueryRow("SELECT n FROM " + table).Scan(&n); err != nil {
				d.Error(err)
			}
			read <- n
		}()
		time.Sleep(50 * time.Millisecond)
		_, err = first.Exec("UPDATE " + table + " SET n = 17")
		require.NoError(d, err)
		require.NoError(d, first.Commit())
		assert.Equal(d, 17, <-read)
	})
}

// A holder that is stopped inside a transaction holds up newer ones, until their contexts or its transaction end.
func TestSQLWaitsNoLongerThanItsContext(t *testing.T) {
	onEveryDatabase(t, func(d *database) {
		if d.dialect == sqlfence.SQLite {
			d.Skip("the driver waits as long as busy_timeout says")
		}
		stopped := d.begin(nil)
		require.NoError(d, d.fences.Pass(d.Context(), stopped, "a", fence.Stamp{Token: 1}))
		ctx, cancel := context.WithTimeout(d.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := d.fences.On(d.db).Pass(ctx, "a", fence.Stamp{Token: 2})
		assert.Error(d, err)
		assert.NotErrorIs(d, err, coord.ErrStale)
		assert.Less(d, time.Since(start), 20*time.Second)
		require.NoError(d, stopped.Rollback())
		assert.NoError(d, d.pass("a", fence.Stamp{Token: 2}))
	})
}

// Many at once: the order in which they commit is that of their tokens.
func TestSQLCommitsInTheOrderOfTokens(t *testing.T) {
	onEveryDatabase(t, func(d *database) {
		table := fmt.Sprintf("log_%d", rand.Uint64())
		number := map[sqlfence.Dialect]string{sqlfence.Postgres: "BIGSERIAL PRIMARY KEY", sqlfence.MySQL: "BIGINT AUTO_INCREMENT PRIMARY KEY",
			sqlfence.SQLite: "INTEGER PRIMARY KEY AUTOINCREMENT"}[d.dialect]
		_, err := d.db.Exec("CREATE TABLE " + table + " (n " + number + ", line VARCHAR(20), token BIGINT)")
		require.NoError(d, err)
		var mu sync.Mutex
		var next atomic.Int64
		outcomes := map[string]int{}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 60 {
					line, token := fmt.Sprintf("line/%d", rand.IntN(3)), max(1, next.Add(1)-rand.Int64N(12))
					err := func() error {
						tx, err := d.db.BeginTx(d.Context(), nil)
						if err != nil {
							return err
						}
						defer tx.Rollback()
						if err := d.fences.Pass(d.Context(), tx, line, fence.Stamp{Token: coord.Token(token)}); err != nil {
							return err
						}
						if _, err := tx.ExecContext(d.Context(), fmt.Sprintf("INSERT INTO %s (line, token) VALUES ('%s', %d)", table, line, token)); err != nil {
							return err
						}
						return tx.Commit()
					}()
					what := "written"
					if errors.Is(err, coord.ErrStale) {
						what = "stale"
					} else if err != nil {
						what = err.Error()
					}
					mu.Lock()
					outcomes[what]++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		d.Log(outcomes)
		rows, err := d.db.Query("SELECT line, token FROM " + table + " ORDER BY n")
		require.NoError(d, err)
		defer rows.Close()
		last, written := map[string]int64{}, 0
		for rows.Next() {
			var line string
			var token int64
			require.NoError(d, rows.Scan(&line, &token))
			assert.GreaterOrEqual(d, token, last[line], line)
			last[line] = token
			written++
		}
		require.NoError(d, rows.Err())
		assert.Equal(d, outcomes["written"], written)
		assert.Greater(d, written, 50)
		assert.Greater(d, outcomes["stale"], 50)
	})
}

func TestSQLSaysWhatToDoAboutAMissingTable(t *testing.T) {
	onEveryDatabase(t, func(d *database) {
		f, err := sqlfence.New(d.dialect, "nowhere")
		require.NoError(d, err)
		err = f.On(d.db).Pass(d.Context(), "a", fence.Stamp{Token: 1})
		assert.ErrorContains(d, err, "(make the table with Create, or run what Schema returns)")
		assert.NotErrorIs(d, err, coord.ErrStale)
	})
}

func TestSQLMakesItsTableOnce(t *testing.T) {
	onEveryDatabase(t, func(d *database) {
		f, err := sqlfence.New(d.dialect, fmt.Sprintf("fence_%d", rand.Uint64()))
		require.NoError(d, err)
		d.db.SetMaxIdleConns(8)
		var open []*sql.Conn // so that nobody has to connect first
		for range 8 {
			c, err := d.db.Conn(d.Context())
			require.NoError(d, err)
			open = append(open, c)
		}
		for _, c := range open {
			require.NoError(d, c.Close())
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := f.Create(d.Context(), d.db); err != nil {
					d.Error(err)
				}
			})
		}
		all.Wait()
		assert.NoError(d, f.On(d.db).Pass(d.Context(), "a", fence.Stamp{Token: 2}))
		_, err = d.db.Exec(f.Schema())
		assert.NoError(d, err, "it is there already")
		assert.ErrorIs(d, f.On(d.db).Pass(d.Context(), "a", fence.Stamp{Token: 1}), coord.ErrStale)
	})
}

func TestSQLTakesTablesOfASchema(t *testing.T) {
	onEveryDatabase(t, func(d *database) {
		schema := "main"
		if d.dialect != sqlfence.SQLite {
			schema = fmt.Sprintf("Some_%d", rand.Uint32())
			_, err := d.db.Exec("CREATE SCHEMA " + map[sqlfence.Dialect]string{sqlfence.Postgres: `"`, sqlfence.MySQL: "`"}[d.dialect] +
				schema + map[sqlfence.Dialect]string{sqlfence.Postgres: `"`, sqlfence.MySQL: "`"}[d.dialect])
			require.NoError(d, err)
		}
		f, err := sqlfence.New(d.dialect, schema+".order")
		require.NoError(d, err)
		require.NoError(d, f.Create(d.Context(), d.db))
		assert.NoError(d, f.On(d.db).Pass(d.Context(), "a", fence.Stamp{Token: 2}))
		assert.ErrorIs(d, f.On(d.db).Pass(d.Context(), "a", fence.Stamp{Token: 1}), coord.ErrStale)
	})
}

// A role that may not create tables uses one that somebody else has created.
func TestSQLNeedsNoRightToMakeTables(t *testing.T) {
	m := servers.Postgres(t, servers.Shared())
	d := &database{T: t, dialect: sqlfence.Postgres, db: opened(t, "pgx", m.URL())}
	table := fmt.Sprintf("fence_%d", rand.Uint64())
	f, err := sqlfence.New(sqlfence.Postgres, table)
	require.NoError(t, err)
	role := fmt.Sprintf("app_%d", rand.Uint32())
	_, err = d.db.Exec("CREATE ROLE " + role + "; REVOKE CREATE ON SCHEMA public FROM public")
	require.NoError(t, err)
	app := opened(t, "pgx", m.URL())
	app.SetMaxOpenConns(1)
	_, err = app.Exec("SET ROLE " + role)
	require.NoError(t, err)
	assert.ErrorContains(t, f.Create(t.Context(), app), "(or have somebody run what Schema returns)")
	require.NoError(t, f.Create(t.Context(), d.db))
	_, err = d.db.Exec("GRANT SELECT, INSERT, UPDATE ON " + table + " TO " + role)
	require.NoError(t, err)
	assert.NoError(t, f.Create(t.Context(), app))
	assert.NoError(t, f.On(app).Pass(t.Context(), "a", fence.Stamp{Token: 2}))
	assert.ErrorIs(t, f.On(app).Pass(t.Context(), "a", fence.Stamp{Token: 1}), coord.ErrStale)
}

// A trigger that drops the row does not let everybody through.
func TestSQLLetsNobodyPassIfTheTableKeepsNothing(t *testing.T) {
	db := opened(t, "pgx", servers.Postgres(t, servers.Shared()).URL())
	table := fmt.Sprintf("fence_%d", rand.Uint64())
	f, err := sqlfence.New(sqlfence.Postgres, table)
	require.NoError(t, err)
	require.NoError(t, f.Create(t.Context(), db))
	require.NoError(t, f.On(db).Pass(t.Context(), "a", fence.Stamp{Token: 1}))
	_, err = db.Exec("CREATE FUNCTION drop_it() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; " +
		"CREATE TRIGGER drop_it BEFORE INSERT OR UPDATE ON " + table + " FOR EACH ROW EXECUTE FUNCTION drop_it()")
	require.NoError(t, err)
	err = f.On(db).Pass(t.Context(), "a", fence.Stamp{Token: 2})
	assert.ErrorContains(t, err, "has not kept the stamp 2")
	assert.Error(t, f.On(db).Pass(t.Context(), "b", fence.Stamp{Token: 2}))
}
