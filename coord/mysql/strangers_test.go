package mysql

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/faultproxy"
	"github.com/turnwise/turnwise/verify/servers"
)

// strangers is a server on which mallory has few rights beside app, which uses the locks with all rights on its database, and
// poor, which has the least.
type strangers struct {
	t testing.TB
	m *servers.Member
}

func withStrangers(t *testing.T, opts ...servers.Option) *strangers {
	t.Helper()
	servers.BesideOthers(t)
	return aloneWithStrangers(t, opts...)
}

// aloneWithStrangers is for a test that takes the machine for itself.
func aloneWithStrangers(t *testing.T, opts ...servers.Option) *strangers {
	t.Helper()
	s := &strangers{t, durable(t, opts...)}
	engine := "MyISAM" // no rollback takes anything out of it
	s.admin(`CREATE USER mallory@'127.0.0.1'`, `CREATE USER app@'127.0.0.1'`, `CREATE USER poor@'127.0.0.1'`,
		`GRANT ALL ON turnwise.* TO app@'127.0.0.1'`, `CREATE DATABASE theirs`, `GRANT ALL ON theirs.* TO mallory@'127.0.0.1'`,
		`CREATE DATABASE ours`, `CREATE TABLE ours.caught (who VARCHAR(100)) ENGINE = `+engine, `GRANT INSERT ON ours.* TO app@'127.0.0.1'`,
		`GRANT INSERT ON ours.* TO poor@'127.0.0.1'`, `GRANT EXECUTE ON theirs.* TO app@'127.0.0.1'`)
	return s
}

func (s *strangers) url(user string) string { return storecheck.As(s.t, s.m.URL(), user, "", "") }

func (s *strangers) admin(sql ...string) string { s.t.Helper(); return query(s.t, s.m.URL(), sql...) }

func (s *strangers) mallory(sql ...string) string {
	s.t.Helper()
	return query(s.t, storecheck.As(s.t, s.m.URL(), "mallory", "", "theirs"), sql...)
}

// nothingRan fails if code of mallory's has run with rights that he does not have.
func (s *strangers) nothingRan() {
	s.t.Helper()
	if n := s.admin(`SELECT COUNT(*) FROM ours.caught`); n != "0" {
		s.t.Error("mallory's code has run with the rights of somebody else")
		s.admin(`DELETE FROM ours.caught`)
	}
}

func (s *strangers) mayNot(statement string) {
	s.t.Helper()
	c := dialed(s.t, storecheck.As(s.t, s.m.URL(), "mallory", "", "theirs"))
	if _, err := c.ExecContext(within(s.t, 10*time.Second), statement); err == nil {
		s.t.Errorf("mallory may do this: %s", statement)
	}
}

func (s *strangers) client(user string, opts ...Option) *coord.Client {
	s.t.Helper()
	return storecheck.Connected(s.t, func(ctx context.Context) (*coord.Client, error) {
		return Connect(ctx, s.url(user), append([]Option{WithLogger(logger(s.t)), WithTTL(2 * time.Second)}, opts...)...)
	})
}

// used grants mallory a right on a table that app uses.
func (s *strangers) used(right string) (a, b *coord.Client) {
	s.t.Helper()
	a, b = s.client("app"), s.client("app")
	s.admin(`GRANT ` + right + ` ON ` + usual + ` TO mallory@'127.0.0.1'`)
	return a, b
}

const usual = "turnwise.turnwise_register"

// A connection is all he has. He may take any lock of GET_LOCK, and keep it.
func TestAStrangerWithoutRights(t *testing.T) {
	s := withStrangers(t)
	c := dialed(t, storecheck.As(t, s.m.URL(), "mallory", "", "theirs"))
	for _, name := range []string{"turnwise", "turnwise_register", "turnwise register"} {
		if _, err := c.ExecContext(within(t, 10*time.Second), "DO GET_LOCK(?, 0)", name); err != nil {
			t.Fatal(err)
		}
	}
	a, b := s.client("app"), s.client("app")
	storecheck.ShutsOut(t, a, b, "orders")
	for _, sql := range []string{"SELECT 1 FROM " + usual, "DELETE FROM " + usual, "LOCK TABLES " + usual + " READ", "DROP TABLE " + usual,
		"CREATE TRIGGER " + usual + "_x BEFORE UPDATE ON " + usual + " FOR EACH ROW SET @x = 1"} {
		s.mayNot(sql)
	}
	if s.mallory(`SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'app'`) != "0" {
		t.Error("he sees others' connections")
	}
}

// He also begins a transaction that sees all as it was, and leaves it open: then the server keeps all that has been.
func TestAStrangerWhoKeepsATransactionOpen(t *testing.T) {
	s := withStrangers(t)
	a, b := s.client("app"), s.client("app")
	store := opened(t, s.url("app"))
	h := storecheck.Locked(t, a, "orders")
	c := dialed(t, storecheck.As(t, s.m.URL(), "mallory", "", "theirs"))
	if _, err := c.ExecContext(within(t, 10*time.Second), `START TRANSACTION WITH CONSISTENT SNAPSHOT`); err != nil {
		t.Fatal(err)
	}
	const swaps = 1000
	it := register.Item{Key: "line/busy"}
	for range swaps {
		it = put(t, store, it, "x")
	}
	kept := func() bool {
		return s.admin(`SELECT count >= `+fmt.Sprint(swaps/2)+` FROM information_schema.innodb_metrics WHERE name = 'trx_rseg_history_len'`) == "1"
	}
	if !kept() {
		t.Error("what has been is not kept")
	}
	storecheck.IsBusy(t, b, "orders")
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	storecheck.ShutsOut(t, a, b, "orders")
	if _, err := c.ExecContext(within(t, 10*time.Second), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is cleared away", func() bool { return !kept() })
}

func TestAStrangerWhoMaySelect(t *testing.T) {
	s := withStrangers(t)
	a, b := s.used("SELECT")
	h := storecheck.Locked(t, a, "orders")
	if s.mallory(`SELECT COUNT(*) FROM `+usual+` WHERE name = 'line/orders'`) != "1" {
		t.Error("he does not see the line")
	}
	s.mayNot("LOCK TABLES " + usual + " READ")
	c := dialed(t, storecheck.As(t, s.m.URL(), "mallory", "", "theirs"))
	tx, err := c.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.ExecContext(within(t, 10*time.Second), `SELECT * FROM `+usual+` FOR UPDATE`)
	if isMySQL(t, s.m) != (err != nil) {
		t.Errorf("locking rows: %v", err)
	}
	if err == nil { // on MariaDB he may, and keep them
		storecheck.EndsSoon(t, h)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	_ = h.Release()
	storecheck.ShutsOut(t, a, b, "more")
}

// On MariaDB SELECT is also enough for a foreign key, by which a row cannot be removed: the session of a dead process stays, and its
// line stays taken.
func TestAStrangerWhoMaySelectKeepsTheSessionsOfTheDead(t *testing.T) {
	s := withStrangers(t)
	if isMySQL(t, s.m) {
		t.Skip("MySQL wants the right REFERENCES for that")
	}
	_, b := s.used("SELECT")
	proxy := faultproxy.Start(t, s.m.Addr())
	dead := storecheck.Connected(t, func(ctx context.Context) (*coord.Client, error) {
		return Connect(ctx, strings.Replace(s.url("app"), s.m.Addr(), proxy.Addr(), 1), WithLogger(logger(t)), WithTTL(2*time.Second))
	})
	h := storecheck.Locked(t, dead, "orders")
	s.mallory(`CREATE TABLE theirs.mine (name VARBINARY(1100) PRIMARY KEY, FOREIGN KEY (name) REFERENCES `+usual+` (name))`,
		`INSERT INTO theirs.mine SELECT name FROM `+usual+` WHERE name LIKE 'session/%'`)
	proxy.Blackhole()
	storecheck.EndsSoon(t, h)
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	if _, err := mutex.New(b, "orders").Lock(ctx); err == nil {
		t.Error("the session was ended")
	}
	s.mallory(`DROP TABLE theirs.mine`)
	storecheck.Locked(t, b, "orders")
}

// An INSERT that meets a row locks it, until the transaction ends.
func TestAStrangerWhoMayInsertKeepsALineWaiting(t *testing.T) {
	s := withStrangers(t)
	a, b := s.used("INSERT")
	h, other := storecheck.Locked(t, a, "orders"), storecheck.Locked(t, a, "other")
	tx, err := dialed(t, storecheck.As(t, s.m.URL(), "mallory", "", "theirs")).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(within(t, 10*time.Second), `INSERT INTO `+usual+` (name, version, since, value) VALUES ('line/orders', 1, NOW(), '')`); err == nil {
		t.Error("he has replaced the line")
	}
	_ = h.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	if _, err := mutex.New(b, "orders").Lock(ctx); err == nil {
		t.Error("the line is not locked")
	}
	if err := other.Err(); err != nil {
		t.Errorf("the hold of another line: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
	storecheck.Locked(t, b, "orders")
}

func TestAStrangerWhoMayInsertKeepsLinesWaiting(t *testing.T) {
	s := withStrangers(t)
	s.used("INSERT")
	tx, err := dialed(t, storecheck.As(t, s.m.URL(), "mallory", "", "theirs")).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(within(t, 10*time.Second), `INSERT INTO `+usual+` (name, version, since, value) VALUES ('line/spoilt', 1, NOW(), '')`); err != nil {
		t.Fatal(err)
	}
	one, err := Open(within(t, time.Minute), s.url("app"), WithLogger(logger(t)), WithConnections(1))
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	storecheck.RenewedBeside(t, one, storecheck.PutIn(one, "line/spoilt"))
}

func TestAStrangerWhoMayInsert(t *testing.T) {
	s := withStrangers(t)
	a, b := s.used("INSERT")
	s.mallory(`INSERT INTO ` + usual + ` (name, version, since, value) VALUES ('line/spoilt', 1, NOW(), 'x')`)
	storecheck.SpoilsOneLine(t, a, b, "spoilt")
	for _, sql := range []string{"DELETE FROM " + usual, "UPDATE " + usual + " SET value = ''", "SELECT 1 FROM " + usual,
		"INSERT INTO " + usual + " (name, version, since, value) VALUES ('epoch', 1, NOW(), 'x')", // all new lines would be refused
		"INSERT INTO " + usual + " (name, version, since, value) VALUES ('line/orders', 1, NOW(), '') ON DUPLICATE KEY UPDATE value = ''",
		"REPLACE INTO " + usual + " (name, version, since, value) VALUES ('line/orders', 1, NOW(), '')"} {
		s.mayNot(sql)
	}
}

func TestAStrangerWhoMayUpdate(t *testing.T) {
	s := withStrangers(t)
	a, _ := s.used("UPDATE")
	h := storecheck.Locked(t, a, "orders")
	c := dialed(t, storecheck.As(t, s.m.URL(), "mallory", "", "theirs"))
	tx, err := c.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(within(t, 10*time.Second), `UPDATE `+usual+` SET value = 'x'`); err != nil {
		t.Fatal(err)
	}
	storecheck.EndsSoon(t, h) // he keeps all rows locked
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	storecheck.SpoilsAll(t, a)
	s.mayNot("DROP TABLE " + usual)
}

func TestAStrangerWhoMayDelete(t *testing.T) {
	s := withStrangers(t)
	a, b := s.used("DELETE")
	storecheck.Emptied(t, a, b, func() { s.mallory(`DELETE FROM ` + usual) })
}

// hisView has a function of mallory's that is called with the rights of whoever uses the view.
func (s *strangers) hisView(name string) {
	s.t.Helper()
	s.mallory(`CREATE SQL SECURITY INVOKER VIEW ` + name + ` AS SELECT * FROM theirs.plain WHERE theirs.snap() = 1`)
}

func (s *strangers) hisFunction() {
	s.t.Helper()
	s.mallory(Schema("theirs.plain"), `INSERT INTO theirs.plain (name, version, since, value) VALUES ('k', 1, NOW(), 'x')`,
		`CREATE FUNCTION theirs.snap() RETURNS INT DETERMINISTIC MODIFIES SQL DATA SQL SECURITY INVOKER BEGIN INSERT INTO ours.caught VALUES (CURRENT_USER()); RETURN 1; END`)
	s.admin(`GRANT SELECT, INSERT, UPDATE, DELETE ON theirs.* TO app@'127.0.0.1'`)
}

// Who creates in the database makes the table, or what looks like it, before others do. A table has no owner here, and he has only
// the rights on it that he has anyway.
func TestAStrangerWhoMayCreateInTheDatabase(t *testing.T) {
	s := withStrangers(t)
	s.hisFunction()
	s.admin(`GRANT CREATE, CREATE VIEW ON turnwise.* TO mallory@'127.0.0.1'`)
	s.hisView("turnwise.seen")
	s.mallory(`CREATE TABLE turnwise.old (name VARBINARY(100) PRIMARY KEY, version BIGINT, value LONGBLOB) ENGINE = MyISAM`,
		`CREATE TABLE turnwise.bare (id INT)`)
	for table, says := range map[string]string{"seen": "no plain table", "old": "ENGINE = InnoDB", "bare": "layout"} {
		for _, user := range []string{"app", "root"} {
			_, err := Open(within(t, 20*time.Second), s.url(user), WithTable(table))
			storecheck.Refused(t, err, driver.ErrDenied, says)
		}
	}
	s.mayNot("INSERT INTO turnwise.bare VALUES (1)")
	s.nothingRan()
}

// The table of a stranger looks like ours, but keeps less than is put into it, or lets two make the same register.
func TestATableThatIsAlmostLikeOursIsRefused(t *testing.T) {
	s := withStrangers(t)
	s.admin(`GRANT CREATE ON turnwise.* TO mallory@'127.0.0.1'`)
	for name, c := range map[string]struct{ of, becomes string }{
		"another key":                  {"name           VARBINARY(1100) NOT NULL PRIMARY KEY", "name VARBINARY(1100) NOT NULL, PRIMARY KEY (name, version)"},
		"half a key":                   {"name           VARBINARY(1100) NOT NULL PRIMARY KEY", "name VARBINARY(1100) NOT NULL, PRIMARY KEY (name(20))"},
		"a key that takes A for a":     {"name           VARBINARY(1100)", "name VARCHAR(250)"},
		"whole seconds":                {"since          DATETIME(6)", "since DATETIME"},
		"whole days":                   {"since          DATETIME(6)", "since DATE"},
		"a reservation from the start": {"reserved_until DATETIME(6) NULL", "reserved_until DATETIME(6) NULL DEFAULT '9999-01-01'"},
		"versions that are rounded":    {"version        BIGINT", "version DOUBLE"},
		"a computed column":            {"value          LONGBLOB NOT NULL", "value LONGBLOB NOT NULL, more INT AS (version) VIRTUAL"},
		"a check":                      {"value          LONGBLOB NOT NULL", "value LONGBLOB NOT NULL, CHECK (version < 1000)"},
		"one more key":                 {"value          LONGBLOB NOT NULL", "value LONGBLOB NOT NULL, UNIQUE (version)"},
		"a parent":                     {"value          LONGBLOB NOT NULL", "value LONGBLOB NOT NULL, FOREIGN KEY (name) REFERENCES theirs.parent (name)"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &strangers{t, s.m}
			table := "turnwise." + freshTable()
			schema, _, _ := strings.Cut(Schema(table), "AS SELECT")
			if !strings.Contains(schema, c.of) {
				t.Fatalf("there is no %s in %s", c.of, schema)
			}
			if name == "a parent" {
				s.mallory(`CREATE TABLE IF NOT EXISTS theirs.parent (name VARBINARY(1100) PRIMARY KEY)`)
			}
			s.mallory(strings.Replace(schema, c.of, c.becomes, 1))
			store, err := Open(within(t, 20*time.Second), s.url("app"), WithTable(table))
			if err == nil {
				defer store.Close()
				for range 2 {
					_, err := store.Swap(within(t, 10*time.Second), register.Swap{Key: "k", Next: register.NewVersion()})
					t.Logf("a register is made: %v", err)
				}
			}
			storecheck.Refused(t, err, driver.ErrDenied, "another layout")
		})
	}
}

// Who may change the layout decides what the server keeps. It is noticed when a connection is new.
func TestAStrangerWhoMayAlter(t *testing.T) {
	s := withStrangers(t)
	a, b := s.used("ALTER")
	storecheck.ShutsOut(t, a, b, "orders")
	s.mallory(`ALTER TABLE ` + usual + ` DROP PRIMARY KEY, ADD PRIMARY KEY (name, version)`)
	_, err := Open(within(t, 20*time.Second), s.url("app"))
	storecheck.Refused(t, err, driver.ErrDenied, "another layout")
	s.mayNot("UPDATE " + usual + " SET value = ''")
	s.mayNot("DROP TABLE " + usual)
}

// With DROP he puts a view in the place of a table that is in use.
func TestATableThatIsReplacedRunsNothing(t *testing.T) {
	s := withStrangers(t)
	s.hisFunction()
	for name, do := range map[string]func(*Store, register.Item) error{
		"read": func(st *Store, it register.Item) error { _, err := st.Read(t.Context(), it.Key); return err },
		"list": func(st *Store, it register.Item) error {
			return st.List(t.Context(), "", func(register.Item) bool { return true })
		},
		"insert": func(st *Store, it register.Item) error {
			_, err := st.Swap(t.Context(), register.Swap{Key: "new", Next: register.NewVersion()})
			return err
		},
		"update": func(st *Store, it register.Item) error {
			_, err := st.Swap(t.Context(), register.Swap{Key: it.Key, Old: it.Version, Next: register.NewVersion()})
			return err
		},
		"update, and clock": func(st *Store, it register.Item) error {
			_, err := st.Swap(t.Context(), register.Swap{Key: it.Key, Old: it.Version, Next: register.NewVersion(), Clock: true})
			return err
		},
		"remove": func(st *Store, it register.Item) error {
			_, err := st.Swap(t.Context(), register.Swap{Key: it.Key, Old: it.Version})
			return err
		},
		"reserve": func(st *Store, it register.Item) error {
			_, err := st.Swap(t.Context(), register.Swap{Key: it.Key, Next: register.NewVersion(), By: register.NewVersion(), Reserve: time.Second})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &strangers{t, s.m}
			table := freshTable()
			store := opened(t, s.url("app"), WithTable(table))
			it := put(t, store, register.Item{Key: "k"}, "1")
			s.admin(`GRANT DROP, CREATE VIEW ON turnwise.* TO mallory@'127.0.0.1'`)
			s.mallory("DROP TABLE turnwise." + table)
			s.hisView("turnwise." + table)
			if err := do(store, it); !errors.Is(err, driver.ErrDenied) {
				t.Errorf("it says %v", err)
			}
			s.nothingRan()
		})
	}
}

// What a trigger does, it does with the rights of whoever made it.
func TestAStrangerWhoMayMakeTriggers(t *testing.T) {
	s := withStrangers(t)
	s.client("app")
	s.admin(`GRANT SELECT, INSERT, UPDATE, DELETE ON `+usual+` TO poor@'127.0.0.1'`, `GRANT TRIGGER ON `+usual+` TO mallory@'127.0.0.1'`)
	s.mallory("CREATE TRIGGER turnwise.x BEFORE INSERT ON " + usual + " FOR EACH ROW INSERT INTO ours.caught VALUES (CURRENT_USER())")
	for _, user := range []string{"app", "root"} {
		_, err := Open(within(t, 20*time.Second), s.url(user))
		storecheck.Refused(t, err, driver.ErrDenied, "has a trigger, `x`")
	}
	// One who may make none does not see it.
	store := opened(t, s.url("poor"))
	if _, err := store.Swap(within(t, 20*time.Second), register.Swap{Key: "k", Next: register.NewVersion()}); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("a swap that it makes fail: %v", err)
	}
	s.nothingRan()
}

// PROCESS shows what others are sending.
func TestAStrangerWhoMaySeeProcesses(t *testing.T) {
	s := withStrangers(t)
	s.admin(`GRANT PROCESS ON *.* TO mallory@'127.0.0.1'`)
	store := opened(t, s.url("app"))
	it := put(t, store, register.Item{Key: "orders"}, "1")
	c := dialed(t, s.m.URL())
	tx, err := c.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(within(t, 10*time.Second), `SELECT * FROM `+usual+` WHERE name = 'orders' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := store.Swap(within(t, 20*time.Second), register.Swap{Key: "orders", Old: it.Version, Next: register.NewVersion(), Value: []byte("visible")})
		done <- err
	}()
	eventually(t, "he sees the swap", func() bool {
		return s.mallory(`SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'app' AND info LIKE '%visible%'`) == "1"
	})
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	s.mayNot("SELECT 1 FROM " + usual)
	s.mayNot("KILL " + s.admin(`SELECT MIN(id) FROM information_schema.processlist WHERE user = 'app'`))
}

// CONNECTION ADMIN ends connections and statements, also those of a holder.
func TestAStrangerWhoMayEndConnections(t *testing.T) {
	s := withStrangers(t)
	right := "CONNECTION ADMIN"
	if isMySQL(t, s.m) {
		right = "CONNECTION_ADMIN"
	}
	s.admin(`GRANT PROCESS, ` + right + ` ON *.* TO mallory@'127.0.0.1'`)
	a, b := s.client("app", WithTTL(10*time.Second)), s.client("app", WithTTL(10*time.Second))
	c := dialed(t, storecheck.As(t, s.m.URL(), "mallory", "", "theirs"))
	killed := 0
	storecheck.ConnectionsEnded(t, a, b, func() {
		rows, err := c.QueryContext(within(t, 10*time.Second), `SELECT id FROM information_schema.processlist WHERE user = 'app'`)
		if err != nil {
			t.Fatal(err)
		}
		var ids []int64
		for rows.Next() {
			var id int64
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		for _, id := range ids {
			if _, err := c.ExecContext(within(t, 10*time.Second), "KILL ?", id); err == nil {
				killed++
			}
		}
	})
	if killed == 0 {
		t.Error("he has ended nothing")
	}
}

// What stands in init_connect has run before we can ask for it.
func TestAStrangerWhoMayAdministerConnectionsRunsAnything(t *testing.T) {
	s := withStrangers(t)
	if isMySQL(t, s.m) {
		t.Skip("there it takes SYSTEM_VARIABLES_ADMIN")
	}
	s.admin(`GRANT CONNECTION ADMIN ON *.* TO mallory@'127.0.0.1'`)
	s.mallory(`SET GLOBAL init_connect = 'INSERT INTO ours.caught VALUES (CURRENT_USER())'`)
	s.client("app")
	if n := s.admin(`SELECT COUNT(*) FROM ours.caught WHERE who LIKE 'app@%'`); n == "0" {
		t.Error("nothing has run with app's rights")
	}
}

func TestAStrangerWhoMaySetOwnersRunsAnything(t *testing.T) {
	s := withStrangers(t)
	if isMySQL(t, s.m) {
		t.Skip("there it is SET_ANY_DEFINER")
	}
	s.client("app")
	s.mayNot("DELETE FROM " + usual)
	s.admin(`GRANT SET USER ON *.* TO mallory@'127.0.0.1'`)
	s.mallory(`CREATE DEFINER = app@'127.0.0.1' PROCEDURE theirs.p() SQL SECURITY DEFINER DELETE FROM `+usual, `CALL theirs.p()`)
	if n := s.admin(`SELECT COUNT(*) FROM ` + usual); n != "0" {
		t.Errorf("%s rows are left", n)
	}
}

// Who may make users may give others another password.
func TestAStrangerWhoMayMakeUsersRunsAnything(t *testing.T) {
	s := withStrangers(t)
	s.client("app")
	s.mayNot("SET PASSWORD FOR app@'127.0.0.1' = PASSWORD('his')")
	s.mayNot("ALTER USER app@'127.0.0.1' IDENTIFIED BY 'his'")
	s.admin(`GRANT CREATE USER ON *.* TO mallory@'127.0.0.1'`)
	s.mallory(`ALTER USER app@'127.0.0.1' IDENTIFIED BY 'his'`)
	query(t, storecheck.As(t, s.m.URL(), "app", "his", ""), `DELETE FROM `+usual)
}

// Who may say that nothing is written has all holds end in time.
func TestAStrangerWhoMayMakeTheServerReadOnly(t *testing.T) {
	s := withStrangers(t)
	if isMySQL(t, s.m) {
		t.Skip("there it takes SYSTEM_VARIABLES_ADMIN")
	}
	a, b := s.client("app"), s.client("app")
	h := storecheck.Locked(t, a, "orders")
	s.mayNot("SET GLOBAL read_only = 1")
	s.admin(`GRANT READ_ONLY ADMIN ON *.* TO mallory@'127.0.0.1'`)
	s.mallory(`SET GLOBAL read_only = 1`)
	storecheck.EndsSoon(t, h)
	if _, err := mutex.New(b, "orders").TryLock(within(t, 5*time.Second)); err == nil {
		t.Error("somebody is let in")
	}
	s.mallory(`SET GLOBAL read_only = 0`)
	storecheck.ShutsOut(t, a, b, "more")
}

// Who may say from where changes are taken has them taken from a server of his own.
func TestAStrangerWhoMayMakeTheServerAReplicaRunsAnything(t *testing.T) {
	s := withStrangers(t)
	if isMySQL(t, s.m) {
		t.Skip("there it is called REPLICATION_SLAVE_ADMIN, and CHANGE REPLICATION SOURCE")
	}
	s.client("app")
	const change = `CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %s, MASTER_USER = 'his', MASTER_PASSWORD = 'his'`
	s.mayNot(fmt.Sprintf(change, "1"))
	his := servers.MariaDB(t, servers.Config("log_bin=log", "server_id=4711")).Member(0)
	query(t, his.URL(), `CREATE USER his@'127.0.0.1' IDENTIFIED BY 'his'`, `GRANT REPLICATION SLAVE ON *.* TO his@'127.0.0.1'`, `RESET MASTER`,
		`CREATE DATABASE IF NOT EXISTS turnwise`, `SET binlog_format = STATEMENT`, `CREATE TABLE IF NOT EXISTS `+usual+` (name VARBINARY(1100))`, `DELETE FROM `+usual)
	s.admin(`GRANT REPLICATION SLAVE ADMIN ON *.* TO mallory@'127.0.0.1'`)
	_, port, err := net.SplitHostPort(his.Addr())
	if err != nil {
		t.Fatal(err)
	}
	s.mallory(fmt.Sprintf(change, port), `START SLAVE`)
	eventually(t, "his server empties the table", func() bool { return s.admin(`SELECT COUNT(*) FROM `+usual) == "0" })
}

// Who may write files writes one that the server takes for a trigger of whom he likes.
func TestAStrangerWhoMayWriteFilesRunsAnything(t *testing.T) {
	s := withStrangers(t)
	if isMySQL(t, s.m) || s.admin(`SELECT COALESCE(@@secure_file_priv, '')`) != "" {
		t.Skip("the server keeps its own files from that")
	}
	store := opened(t, s.url("app"))
	it := put(t, store, register.Item{Key: "k"}, "1")
	root, _, _ := strings.Cut(s.admin(`SELECT CURRENT_USER()`), "@")
	host := s.admin(`SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', -1)`)
	dir := s.admin(`SELECT @@datadir`) + "turnwise/"
	trigger := fmt.Sprintf("TYPE=TRIGGERS\ntriggers='CREATE DEFINER=`%s`@`%s` TRIGGER x BEFORE UPDATE ON turnwise_register FOR EACH ROW INSERT INTO ours.caught VALUES (CURRENT_USER())'\n"+
		"sql_modes=0\ndefiners='%[1]s@%[2]s'\nclient_cs_names='utf8mb4'\nconnection_cl_names='utf8mb4_general_ci'\ndb_cl_names='utf8mb4_general_ci'\ncreated=0\n", root, host)
	write := func(name, text string) string {
		return fmt.Sprintf(`SELECT x'%x' INTO DUMPFILE '%s%s'`, text, dir, name)
	}
	s.mayNot(write("x.TRN", "TYPE=TRIGGERNAME\ntrigger_table=turnwise_register\n"))
	s.admin(`GRANT FILE ON *.* TO mallory@'127.0.0.1'`)
	s.mallory(write("x.TRN", "TYPE=TRIGGERNAME\ntrigger_table=turnwise_register\n"), write("turnwise_register.TRG", trigger))
	s.admin(`FLUSH TABLES`) // as happens now and then
	_, err := store.Swap(within(t, 20*time.Second), register.Swap{Key: "k", Old: it.Version, Next: register.NewVersion()})
	if n := s.admin(`SELECT COUNT(*) FROM ours.caught WHERE who LIKE 'root@%'`); n == "0" {
		t.Errorf("nothing has run with the rights of root: %v", err)
	}
}

// A UNIQUE index takes some rows for one that are not, and without the primary key two could be of one name: neither is gone on with.
func TestAStrangerWhoMayMakeIndexes(t *testing.T) {
	for name, sql := range map[string]string{
		"one more":       "CREATE UNIQUE INDEX more ON " + usual + " (value(2))",
		"not the others": "DROP INDEX `PRIMARY` ON " + usual,
	} {
		t.Run(name, func(t *testing.T) {
			s := withStrangers(t)
			a, b := s.used("INDEX")
			h := storecheck.Locked(t, a, "orders")
			s.mallory(sql)
			for _, c := range []*coord.Client{a, b} {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				if _, err := mutex.New(c, "orders").TryLock(ctx); err == nil && h.Err() == nil {
					t.Error("two hold")
				}
				if _, err := mutex.New(c, "other").Lock(ctx); err == nil {
					t.Error("a line is made in such a table")
				}
				cancel()
			}
			if strings.HasPrefix(sql, "DROP") {
				storecheck.EndsSoon(t, h)
				s.admin("ALTER TABLE " + usual + " ADD PRIMARY KEY (name)")
			} else {
				s.admin("DROP INDEX more ON " + usual)
			}
			storecheck.Locked(t, b, "other")
		})
	}
}

func TestAStrangerWhoMayFlushTables(t *testing.T) {
	s := withStrangers(t)
	a, b := s.client("app"), s.client("app")
	s.admin(`GRANT RELOAD ON *.* TO mallory@'127.0.0.1'`)
	h := storecheck.Locked(t, a, "orders")
	c := dialed(t, storecheck.As(t, s.m.URL(), "mallory", "", "theirs"))
	if _, err := c.ExecContext(within(t, 10*time.Second), "FLUSH TABLES WITH READ LOCK"); err != nil {
		t.Fatal(err)
	}
	storecheck.EndsSoon(t, h)
	if _, err := c.ExecContext(within(t, 10*time.Second), "UNLOCK TABLES"); err != nil {
		t.Fatal(err)
	}
	storecheck.ShutsOut(t, a, b, "more")
}

// What he makes beside the table is his alone, and runs with his own rights.
func TestAStrangerWhoMayMakeThingsBesideTheTable(t *testing.T) {
	s := withStrangers(t)
	a, b := s.client("app"), s.client("app")
	s.admin(`GRANT EVENT, CREATE TEMPORARY TABLES, CREATE ROUTINE, SHOW VIEW ON turnwise.* TO mallory@'127.0.0.1'`, `SET GLOBAL event_scheduler = 1`)
	h := storecheck.Locked(t, a, "orders")
	s.mallory(`CREATE TEMPORARY TABLE `+usual+` (name VARBINARY(10))`,
		`CREATE FUNCTION turnwise.UTC_TIMESTAMP(n INT) RETURNS DATETIME RETURN '2000-01-01'`,
		`CREATE EVENT turnwise.e ON SCHEDULE EVERY 1 SECOND DO DELETE FROM `+usual)
	s.client("app")
	storecheck.IsBusy(t, b, "orders")
	select {
	case <-h.Context().Done():
		t.Errorf("the hold: %v", context.Cause(h.Context()))
	case <-time.After(3 * time.Second):
	}
}

// LOCK TABLES, with SELECT, stops all that is written until he lets go. A hold ends in time.
func TestAStrangerWhoMayLockTables(t *testing.T) {
	s := withStrangers(t)
	a, b := s.used("SELECT")
	s.admin(`GRANT LOCK TABLES ON turnwise.* TO mallory@'127.0.0.1'`)
	h := storecheck.Locked(t, a, "orders")
	c := dialed(t, storecheck.As(t, s.m.URL(), "mallory", "", "theirs"))
	if _, err := c.ExecContext(within(t, 10*time.Second), "LOCK TABLES "+usual+" READ"); err != nil {
		t.Fatal(err)
	}
	storecheck.EndsSoon(t, h)
	if _, err := c.ExecContext(context.Background(), "UNLOCK TABLES"); err != nil {
		t.Fatal(err)
	}
	storecheck.ShutsOut(t, a, b, "more")
}

// With SELECT he can choose the line.
func TestAStrangerWhoMaySelectAndDelete(t *testing.T) {
	s := withStrangers(t)
	a, b := s.used("SELECT, DELETE")
	storecheck.LineTaken(t, a, b, func() { s.mallory(`DELETE FROM ` + usual + ` WHERE name = 'line/orders'`) })
}

// A transaction that is prepared is nobody's: no connection shows it, and it outlives even its user. What it keeps locked stays so until an
// operator rolls it back.
func TestAStrangerWhoPreparesATransactionIsGoneAndKeepsRowsLocked(t *testing.T) {
	s := withStrangers(t)
	a, b := s.client("app", WithLongestTTL(2*time.Second)), s.client("app", WithLongestTTL(2*time.Second))
	for _, c := range []struct{ right, line, sql string }{
		{"SELECT", "orders", `SELECT COUNT(*) FROM (SELECT 1 FROM ` + usual + ` FOR UPDATE) AS t`},
		{"UPDATE", "orders", `UPDATE ` + usual + ` SET value = 'x'`},
		{"INSERT", "new", `INSERT INTO ` + usual + ` (name, version, since, value) VALUES ('line/new', 1, NOW(), '')`},
	} {
		if c.right == "SELECT" && isMySQL(t, s.m) {
			continue // there he may lock no rows
		}
		t.Run(c.right, func(t *testing.T) {
			s.admin(`CREATE USER IF NOT EXISTS mallory@'127.0.0.1'`, `GRANT ALL ON theirs.* TO mallory@'127.0.0.1'`, `GRANT `+c.right+` ON `+usual+` TO mallory@'127.0.0.1'`)
			s.mallory(`CREATE TABLE IF NOT EXISTS theirs.x (a INT) ENGINE = InnoDB`)
			h := storecheck.Locked(t, a, "orders")
			his := dialed(t, storecheck.As(t, s.m.URL(), "mallory", "", "theirs"))
			var number string
			if err := his.QueryRowContext(within(t, 10*time.Second), `SELECT CONNECTION_ID()`).Scan(&number); err != nil {
				t.Fatal(err)
			}
			for _, sql := range []string{`XA START 'his'`, `INSERT INTO theirs.x VALUES (1)`, c.sql, `XA END 'his'`, `XA PREPARE 'his'`} {
				if _, err := his.ExecContext(within(t, 10*time.Second), sql); err != nil {
					t.Fatal(sql, err)
				}
			}
			s.admin(`KILL `+number, `DROP USER mallory@'127.0.0.1'`)
			if c.right != "INSERT" {
				storecheck.EndsSoon(t, h)
			}
			eventually(t, "he is gone", func() bool {
				return s.admin(`SELECT COUNT(*) FROM information_schema.processlist WHERE id = `+number) == "0"
			})
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			if _, err := mutex.New(b, c.line).Lock(ctx); err == nil {
				t.Error("the line is not locked")
			}
			s.admin(`XA ROLLBACK 'his'`)
			_ = h.Release()
			next := storecheck.Locked(t, b, c.line)
			if err := next.Release(); err != nil {
				t.Error(err)
			}
		})
	}
}
