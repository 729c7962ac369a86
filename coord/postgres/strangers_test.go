package postgres

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// strangers is a server on which mallory has few rights beside app, which uses the locks. It is like one of a release before
// 15: everybody may create in the schema public.
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
	s.admin(`CREATE ROLE mallory LOGIN`, `CREATE ROLE app LOGIN`, `GRANT CREATE ON SCHEMA public TO PUBLIC`,
		// What runs leaves a mark that no rollback takes away.
		`CREATE SEQUENCE public.caught`, `GRANT USAGE ON SEQUENCE public.caught TO PUBLIC`)
	s.mallory(`CREATE FUNCTION public.snap() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
			IF current_user <> 'mallory' THEN PERFORM pg_catalog.nextval('public.caught'); END IF; END $$`,
		`CREATE FUNCTION public.on_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM public.snap(); RETURN NEW; END $$`,
		// It says that the server may run it whenever it likes.
		`CREATE FUNCTION public.on_sight(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM public.snap(); RETURN $1; END $$`)
	return s
}

func (s *strangers) url(role string) string { return storecheck.As(s.t, s.m.URL(), role, "", "") }

func (s *strangers) admin(sql ...string) string { s.t.Helper(); return query(s.t, s.m.URL(), sql...) }

func (s *strangers) mallory(sql ...string) string {
	s.t.Helper()
	return query(s.t, s.url("mallory"), sql...)
}

// nothingRan fails if code of mallory's has run with somebody else's rights.
func (s *strangers) nothingRan() {
	s.t.Helper()
	if query(s.t, s.m.URL(), `SELECT is_called FROM public.caught`) != "f" {
		s.t.Error("mallory's code has run with the rights of somebody else")
		query(s.t, s.m.URL(), `ALTER SEQUENCE public.caught RESTART`)
	}
}

// mayNot fails if mallory may do that.
func (s *strangers) mayNot(sql string) {
	s.t.Helper()
	c := dialed(s.t, s.url("mallory"))
	defer c.Close(context.Background())
	if _, err := c.Exec(within(s.t, 10*time.Second), sql); err == nil {
		s.t.Errorf("mallory may do this: %s", sql)
	}
}

// app returns a client that has the rights to use locks, and no other.
func (s *strangers) app(opts ...Option) *coord.Client {
	s.t.Helper()
	return storecheck.Connected(s.t, func(ctx context.Context) (*coord.Client, error) {
		return Connect(ctx, s.url("app"), append([]Option{WithLogger(logger(s.t)), WithTTL(2 * time.Second)}, opts...)...)
	})
}

const usual = "public.turnwise_register"

// traps are what a stranger can attach to a table of his.
var traps = map[string]string{
	"nothing yet":          `SELECT 1`,
	"a trigger":            `CREATE TRIGGER x BEFORE INSERT OR UPDATE OR DELETE ON {t} FOR EACH STATEMENT EXECUTE FUNCTION public.on_change()`,
	"a rule":               `CREATE RULE x AS ON UPDATE TO {t} DO ALSO SELECT public.snap()`,
	"a policy":             `ALTER TABLE {t} ENABLE ROW LEVEL SECURITY; CREATE POLICY x ON {t} USING (public.on_sight(1) = 1)`,
	"a default":            `ALTER TABLE {t} ALTER reserved_by SET DEFAULT public.on_sight(1)`,
	"a column of his":      `ALTER TABLE {t} ADD more int GENERATED ALWAYS AS (public.on_sight(1)) STORED`,
	"a check":              `ALTER TABLE {t} ADD CHECK (public.on_sight(1) = 1)`,
	"an index":             `CREATE INDEX ON {t} (public.on_sight(1))`,
	"an index of a part":   `CREATE INDEX ON {t} (version) WHERE public.on_sight(1) = 1`,
	"a child":              `CREATE TABLE {t}_child () INHERITS ({t})`,
	"a type with a check":  `CREATE DOMAIN public.odd AS bigint CHECK (public.on_sight(1) = 1); ALTER TABLE {t} ALTER reserved_by TYPE public.odd`,
	"statistics":           `CREATE STATISTICS {t}_seen ON (public.on_sight(version::int)) FROM {t}`,
	"a coarse clock":       `ALTER TABLE {t} ALTER since TYPE timestamptz(0)`,
	"coarse versions":      `ALTER TABLE {t} ALTER version TYPE double precision`,
	"a view in its place":  `ALTER TABLE {t} RENAME TO hidden; CREATE VIEW {t} AS SELECT * FROM public.hidden WHERE public.on_sight(1) = 1`,
	"a partitioned table":  `DROP TABLE {t}; CREATE TABLE {t} (key bytea PRIMARY KEY, version bigint, value bytea) PARTITION BY RANGE (key)`,
	"a materialised query": `DROP TABLE {t}; CREATE MATERIALIZED VIEW {t} AS SELECT ''::bytea AS key`,
}

// Somebody who may create in the schema makes the table before others do.
func TestAStrangerWhoMayCreateInTheSchema(t *testing.T) {
	s := withStrangers(t)
	for name, trap := range traps {
		t.Run(name, func(t *testing.T) {
			s := &strangers{t, s.m}
			table := "public." + freshTable()
			s.mallory(Schema(table), fmt.Sprintf(`GRANT ALL ON %s TO PUBLIC`, table), strings.ReplaceAll(trap, "{t}", table))
			for _, role := range []string{"app", "postgres"} {
				_, err := Open(within(t, 20*time.Second), s.url(role), WithTable(table), WithLogger(logger(t)))
				storecheck.Refused(t, err, driver.ErrDenied, table[len("public."):])
				if err != nil && !strings.Contains(err.Error(), "belongs to mallory") && !strings.Contains(err.Error(), "no plain table") {
					t.Errorf("it does not say whose the table is: %v", err)
				}
			}
			query(t, s.m.URL(), Schema(table)) // by hand, which does nothing
			s.nothingRan()
		})
	}
}

// What a stranger has left is still there when the table has got a good owner.
func TestWhatAStrangerHasLeftOnATableIsRefused(t *testing.T) {
	s := withStrangers(t)
	for name, trap := range traps {
		if name == "nothing yet" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := &strangers{t, s.m}
			table := "public." + freshTable()
			s.mallory(Schema(table), strings.ReplaceAll(trap, "{t}", table))
			s.admin(`REASSIGN OWNED BY mallory TO postgres`)
			_, err := Open(within(t, 20*time.Second), s.m.URL(), WithTable(table), WithLogger(logger(t)))
			storecheck.Refused(t, err, driver.ErrDenied, table[len("public."):])
			s.admin(`ALTER FUNCTION public.snap() OWNER TO mallory`, `ALTER FUNCTION public.on_sight(int) OWNER TO mallory`,
				`ALTER FUNCTION public.on_change() OWNER TO mallory`, `DROP TABLE IF EXISTS public.hidden CASCADE`, `DROP DOMAIN IF EXISTS public.odd CASCADE`)
			s.nothingRan()
		})
	}
}

// A member of the owner is no friend: before release 16 anybody can make us a member of his own role.
func TestWhoseTableIsUsed(t *testing.T) {
	s := withStrangers(t)
	s.admin(`CREATE ROLE many`, `GRANT many TO app`, `GRANT many TO mallory`, `CREATE ROLE keeper LOGIN`, `GRANT app TO keeper`)
	own := func(role string) string {
		table := "public." + freshTable()
		s.admin(Schema(table), `ALTER TABLE `+table+` OWNER TO "`+role+`"`, `GRANT ALL ON `+table+` TO app`)
		return table
	}
	for _, c := range []struct {
		who, owner string
		opts       []Option
		fine       bool
	}{
		{"app", "app", nil, true}, {"app", "postgres", nil, true}, {"app", "many", nil, false}, {"app", "keeper", nil, false},
		{"postgres", "app", nil, false}, {"postgres", "mallory", nil, false},
		{"app", "keeper", []Option{WithOwner("keeper")}, true}, {"app", "mallory", []Option{WithOwner("keeper")}, false},
	} {
		store, err := Open(within(t, 20*time.Second), s.url(c.who), append(c.opts, WithTable(own(c.owner)))...)
		if err == nil {
			store.Close()
		}
		if c.fine != (err == nil) || err != nil && !strings.Contains(err.Error(), "WithOwner") {
			t.Errorf("%s uses a table of %s: %v", c.who, c.owner, err)
		}
	}
	s.admin(`CREATE DATABASE theirs OWNER keeper`)
	theirs := storecheck.As(t, s.m.URL(), "postgres", "", "theirs")
	query(t, theirs, Schema(usual), `ALTER TABLE `+usual+` OWNER TO keeper`, `GRANT ALL ON `+usual+` TO app`)
	opened(t, storecheck.As(t, theirs, "app", "", ""))
}

// GRANT ALL includes the right to attach code.
func TestAStrangerWhoMayMakeTriggers(t *testing.T) {
	s := withStrangers(t)
	s.admin(Schema(usual), `GRANT SELECT, INSERT, UPDATE, DELETE ON `+usual+` TO app`)
	pooler := servers.PgBouncer(t, s.m).Member(0)
	behind := opened(t, storecheck.As(t, pooler.URL(), "app", "", ""), WithPolling())
	it := put(t, behind, register.Item{Key: "k"}, "1")
	for _, whom := range []string{"mallory", "PUBLIC"} {
		s.admin(`GRANT ALL ON ` + usual + ` TO ` + whom)
		_, err := Open(within(t, 20*time.Second), s.url("app"))
		storecheck.Refused(t, err, driver.ErrDenied, "FROM "+whom)
		s.admin(`REVOKE ALL ON ` + usual + ` FROM ` + whom)
	}
	// He has had the right for a moment.
	s.admin(`GRANT TRIGGER ON ` + usual + ` TO mallory`)
	s.mallory(strings.ReplaceAll(traps["a trigger"], "{t}", usual))
	s.admin(`REVOKE TRIGGER ON ` + usual + ` FROM mallory`)
	_, err := Open(within(t, 20*time.Second), s.url("app"))
	storecheck.Refused(t, err, driver.ErrDenied, "a trigger, x")
	_, err = behind.Swap(within(t, 20*time.Second), register.Swap{Key: "k", Old: it.Version, Next: register.NewVersion()})
	if !errors.Is(err, driver.ErrDenied) {
		t.Errorf("a swap on a table that has got a trigger: %v", err)
	}
	s.nothingRan()
}

// REFERENCES lets somebody keep rows from being removed, and code of the server's runs for it: nobody goes on with that.
func TestAStrangerWhoMayReferToTheTable(t *testing.T) {
	s := withStrangers(t)
	a, _ := s.used("REFERENCES")
	h := storecheck.Locked(t, a, "orders")
	s.mallory(`CREATE TABLE public.mine (key bytea REFERENCES ` + usual + `)`)
	_, err := Open(within(t, 20*time.Second), s.url("app"))
	storecheck.Refused(t, err, driver.ErrDenied, "a constraint, mine_key_fkey")
	storecheck.EndsSoon(t, h)
	s.nothingRan()
}

// An operator drops the table while it is in use, and a stranger is the first to make another one.
func TestATableThatIsReplacedRunsNothing(t *testing.T) {
	s := withStrangers(t)
	pooler := servers.PgBouncer(t, s.m).Member(0)
	for name, url := range map[string]string{"directly": s.url("app"), "behind a pooler": storecheck.As(t, pooler.URL(), "postgres", "", "")} {
		for _, trap := range []string{"a trigger", "a rule", "an index", "a view in its place"} {
			t.Run(name+", "+trap, func(t *testing.T) {
				s := &strangers{t, s.m}
				table := "public." + freshTable()
				store := opened(t, url, WithTable(table), WithPolling())
				it := put(t, store, register.Item{Key: "k"}, "1")
				it = put(t, store, it, "2")
				evil := "public." + freshTable()
				s.mallory(Schema(evil), `GRANT ALL ON `+evil+` TO PUBLIC`)
				// The swap waits for the table, and finds another one.
				tx := meddle(t, store, s.m.URL())
				tx.exec(`DROP TABLE {t}`)
				waiting := begin(t, store, register.Swap{Key: "k", Old: it.Version, Next: register.NewVersion(), Value: []byte("3")})
				tx.waitedFor(s.m.URL())
				tx.exec(`ALTER TABLE ` + evil + ` RENAME TO ` + table[len("public."):])
				for sql := range strings.SplitSeq(strings.ReplaceAll(traps[trap], "{t}", table), ";") {
					tx.exec(`SET LOCAL ROLE mallory`)
					tx.exec(sql)
				}
				tx.commit()
				if a := <-waiting; !errors.Is(a.err, driver.ErrDenied) {
					t.Errorf("the swap that waited: %v", a.err)
				}
				if _, err := store.Read(within(t, 20*time.Second), "k"); !errors.Is(err, driver.ErrDenied) {
					t.Errorf("a read: %v", err)
				}
				if _, err := store.Swap(within(t, 20*time.Second), register.Swap{Key: "l", Next: register.NewVersion()}); !errors.Is(err, driver.ErrDenied) {
					t.Errorf("a swap: %v", err)
				}
				s.admin(`DROP TABLE IF EXISTS public.hidden CASCADE`)
				s.nothingRan()
			})
		}
	}
}

// The schema's owner may drop what is in it, whoever owns that.
func TestAStrangerWhoOwnsTheSchema(t *testing.T) {
	s := withStrangers(t)
	const table = "theirs.register"
	s.admin(`CREATE SCHEMA theirs AUTHORIZATION mallory`, `GRANT USAGE, CREATE ON SCHEMA theirs TO app`)
	a, b := s.app(WithTable(table)), s.app(WithTable(table))
	storecheck.ShutsOut(t, a, b, "orders")
	h := storecheck.Locked(t, a, "orders")
	s.mallory(`DROP TABLE `+table, Schema(table), `GRANT ALL ON `+table+` TO app`,
		`CREATE TRIGGER x BEFORE INSERT OR UPDATE OR DELETE ON `+table+` FOR EACH STATEMENT EXECUTE FUNCTION public.on_change()`)
	if _, err := mutex.New(b, "orders").Lock(within(t, 20*time.Second)); !errors.Is(err, coord.ErrDenied) {
		t.Errorf("a lock in his table: %v", err)
	}
	storecheck.EndsSoon(t, h)
	s.nothingRan()
}

// If he may make schemas as well, he can have another one stand in its place for a while. When it is back, nobody is let in before
// whoever came in between has noticed.
func TestAStrangerWhoRenamesHisSchema(t *testing.T) {
	s := withStrangers(t)
	const table = "theirs.register"
	s.admin(`GRANT CREATE ON DATABASE postgres TO mallory`)
	s.mallory(`CREATE SCHEMA theirs`, `GRANT USAGE, CREATE ON SCHEMA theirs TO app`)
	short := []Option{WithTable(table), WithLongestTTL(2 * time.Second)}
	storecheck.Locked(t, s.app(short...), "orders").Release()
	s.mallory(`ALTER SCHEMA theirs RENAME TO aside`, `CREATE SCHEMA theirs`, `GRANT USAGE, CREATE ON SCHEMA theirs TO app`)
	h := storecheck.Locked(t, s.app(short...), "orders")
	s.mallory(`ALTER SCHEMA theirs RENAME TO other`, `ALTER SCHEMA aside RENAME TO theirs`)
	began := time.Now()
	storecheck.Locked(t, s.app(short...), "orders")
	select {
	case <-h.Context().Done():
	default:
		t.Error("two hold, after", time.Since(began))
	}
	s.nothingRan()
}

// Somebody who may create in a schema of the search_path makes functions and operators that suit what is called there better
// than the server's own, or come before them.
func TestNothingOfAStrangersIsCalled(t *testing.T) {
	s := withStrangers(t)
	s.admin(`ALTER ROLE app SET search_path = public, pg_catalog`, `ALTER ROLE postgres SET search_path = public, pg_catalog`)
	made := 0
	shadow := func(kind string) {
		t.Helper()
		c := dialed(t, s.url("mallory"))
		defer c.Close(context.Background())
		rows, err := c.Query(within(t, 30*time.Second), kind)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for rows.Next() {
			var sql string
			if err := rows.Scan(&sql); err != nil {
				t.Fatal(err)
			}
			all = append(all, sql)
		}
		for _, sql := range all {
			if _, err := c.Exec(within(t, 30*time.Second), sql); err == nil {
				made++
			}
		}
	}
	// Of each function that we call, with each list of arguments that the server has; and of each operator.
	shadow(`SELECT pg_catalog.format('CREATE FUNCTION public.%I (%s) RETURNS %s LANGUAGE plpgsql AS $x$ BEGIN PERFORM public.snap(); RETURN NULL; END $x$',
			p.proname, pg_catalog.pg_get_function_identity_arguments(p.oid), pg_catalog.pg_get_function_result(p.oid))
		FROM pg_catalog.pg_proc p WHERE p.prokind = 'f' AND NOT p.proretset AND p.proname IN ('pg_is_in_recovery', 'current_setting', 'pg_backend_pid',
			'has_function_privilege', 'set_config', 'clock_timestamp', 'convert_to', 'convert_from', 'gen_random_uuid', 'encode', 'decode', 'pg_notify',
			'pg_walfile_name', 'pg_current_wal_lsn', 'pg_current_wal_flush_lsn', 'pg_wal_lsn_diff', 'left', 'floor', 'to_regclass', 'format', 'quote_ident',
			'pg_get_userbyid', 'pg_get_expr', 'current_database', 'acldefault', 'pg_postmaster_start_time', 'hashtext', 'pg_advisory_xact_lock')`)
	const body = `CREATE FUNCTION public.op%s (%s, %s) RETURNS %s LANGUAGE plpgsql AS $x$ BEGIN PERFORM public.snap(); RETURN NULL; END $x$;
		CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.op%s)`
	for i, op := range [][4]string{
		{"=", "text", "text", "bool"}, {"=", "bytea", "bytea", "bool"}, {"=", "bigint", "bigint", "bool"}, {"=", "oid", "oid", "bool"},
		{"=", "name", "name", "bool"}, {"=", "name", "text", "bool"}, {"=", `"char"`, `"char"`, "bool"}, {"<>", "bigint", "bigint", "bool"},
		{"<>", "text", "text", "bool"}, {"<>", "oid", "oid", "bool"}, {"<>", "oid", "regnamespace", "bool"}, {"*", "bigint", "interval", "interval"},
		{"*", "numeric", "integer", "numeric"}, {"+", "timestamptz", "interval", "timestamptz"}, {"-", "timestamptz", "timestamptz", "interval"},
		{"||", "text", "text", "text"}, {"||", "text", "uuid", "text"}, {"||", "uuid", "uuid", "uuid"}, {"/", "integer", "integer", "integer"},
		{">=", "timestamptz", "timestamptz", "bool"}, {"<", "timestamptz", "timestamptz", "bool"}, {">=", "bytea", "bytea", "bool"},
		{"<", "bytea", "bytea", "bool"}, {">", "smallint", "integer", "bool"},
	} {
		n := fmt.Sprint(i)
		s.mallory(fmt.Sprintf(body, n, op[1], op[2], op[3], op[0], op[1], op[2], n))
		made++
	}
	// Types that check what is cast to them.
	for _, name := range []string{"text", "name", "int4", "int8", "bytea", "oid", "regclass", "timestamptz", "bool"} {
		s.mallory(fmt.Sprintf(`CREATE FUNCTION public.fine(pg_catalog.%[1]s) RETURNS pg_catalog.bool IMMUTABLE LANGUAGE plpgsql AS $x$
				BEGIN PERFORM public.snap(); RETURN true; END $x$;
			CREATE DOMAIN public.%[1]s AS pg_catalog.%[1]s CHECK (public.fine(VALUE))`, name))
		made++
	}
	if made < 50 {
		t.Fatalf("only %d traps were laid", made)
	}
	pooler := servers.PgBouncer(t, s.m, servers.Config("[databases]", "* = host=127.0.0.1 port="+strings.Split(s.m.Addr(), ":")[1]+" user=postgres")).Member(0)
	host := strings.TrimPrefix(s.m.Addr(), "127.0.0.1")
	where := func(attrs string) string {
		u, err := url.Parse(s.url("app"))
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set("target_session_attrs", attrs)
		u.RawQuery = q.Encode()
		return u.String()
	}
	for name, url := range map[string]string{"as its user": s.url("app"), "as superuser": s.m.URL(), "behind a pooler": pooler.URL(),
		"at one of several hosts":     strings.Replace(s.url("app"), s.m.Addr(), s.m.Addr()+",127.0.0.2"+host, 1),
		"where it has to be primary":  where("primary"),
		"where it has to take writes": where("read-write"),
	} {
		t.Run(name, func(t *testing.T) {
			s := &strangers{t, s.m}
			store := opened(t, url, WithTable("public."+freshTable()))
			worksThroughout(t, store)
			s.nothingRan()
		})
	}
	query(t, s.m.URL(), Schema("public.by_hand"))
	s.nothingRan()
}

// CONNECT is all he has. In particular he may take any advisory lock, and keep it.
func TestAStrangerWithoutRights(t *testing.T) {
	s := withStrangers(t)
	s.admin(`REVOKE CREATE ON SCHEMA public FROM PUBLIC`, `GRANT CREATE ON SCHEMA public TO app`)
	c := dialed(t, s.url("mallory"))
	defer c.Close(context.Background())
	if _, err := c.Exec(within(t, 10*time.Second), `SELECT pg_advisory_lock(hashtext('turnwise register'))`); err != nil {
		t.Fatal(err)
	}
	a, b := s.app(), s.app()
	storecheck.ShutsOut(t, a, b, "orders")
	for _, sql := range []string{"SELECT FROM " + usual, "LOCK TABLE " + usual + " IN ACCESS SHARE MODE", "DELETE FROM " + usual, "DROP TABLE " + usual,
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'"} {
		s.mayNot(sql)
	}
}

// Who may connect fills the queue of notes, of 8 GB, in a minute: he listens, stays in a transaction, and tells without end. Here the
// server says at once what it says then.
func TestAStrangerWhoFillsTheQueueOfNotes(t *testing.T) {
	s := withStrangers(t)
	a, b := s.app(), s.app()
	store := opened(t, s.url("app"))
	h := storecheck.Locked(t, a, "orders")
	s.admin(`ALTER FUNCTION pg_catalog.pg_notify(text, text) RENAME TO pg_notify_before`, `CREATE FUNCTION pg_catalog.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'too many notifications in the NOTIFY queue' USING ERRCODE = '54000'; END $$`)
	got := make(chan error, 1)
	go func() {
		_, err := mutex.New(b, "orders").Lock(within(t, 60*time.Second))
		got <- err
	}()
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	if err := <-got; err != nil {
		t.Errorf("the next one: %v", err)
	}
	note := register.Note{Topic: "x", Text: []byte("y")}
	it := put(t, store, register.Item{Key: "k"}, "1", note)
	it = put(t, store, it, "2", note)
	if _, err := store.Swap(within(t, 20*time.Second), register.Swap{Key: "k", Old: it.Version, Notes: []register.Note{note}}); err != nil {
		t.Errorf("remove: %v", err)
	}
}

// Who may connect also begins a transaction and leaves it open. What was current when it began, and all that has come since, nobody clears
// away, and each swap passes what the line has been.
func TestAStrangerWhoKeepsATransactionOpen(t *testing.T) {
	s := withStrangers(t)
	s.admin(`REVOKE CREATE ON SCHEMA public FROM PUBLIC`, `GRANT CREATE ON SCHEMA public TO app`)
	a, b := s.app(), s.app()
	store := opened(t, s.url("app"))
	h := storecheck.Locked(t, a, "orders")
	c := dialed(t, s.url("mallory"))
	defer c.Close(context.Background())
	for _, sql := range []string{`BEGIN ISOLATION LEVEL REPEATABLE READ`, `SELECT 1`} {
		if _, err := c.Exec(within(t, 10*time.Second), sql); err != nil {
			t.Fatal(err)
		}
	}
	const swaps = 1000
	it := register.Item{Key: "line/busy"}
	for range swaps {
		it = put(t, store, it, "x")
	}
	stay := func(few bool) bool {
		s.admin(`VACUUM ` + usual)
		return few == (s.admin(`SELECT n_dead_tup < `+fmt.Sprint(swaps/2)+` FROM pg_stat_user_tables WHERE relid = '`+usual+`'::regclass`) == "t")
	}
	storecheck.Eventually(t, "what the line has been stays", func() bool { return stay(false) })
	storecheck.IsBusy(t, b, "orders")
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	storecheck.ShutsOut(t, a, b, "orders")
	if _, err := c.Exec(within(t, 10*time.Second), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	storecheck.Eventually(t, "it is cleared away", func() bool { return stay(true) })
}

// used grants mallory a right on a table that app uses.
func (s *strangers) used(right string) (a, b *coord.Client) {
	s.t.Helper()
	a, b = s.app(), s.app()
	s.admin(`GRANT ` + right + ` ON ` + usual + ` TO mallory`)
	return a, b
}

func TestAStrangerWhoMaySelect(t *testing.T) {
	s := withStrangers(t)
	a, b := s.used("SELECT")
	h := storecheck.Locked(t, a, "orders")
	if s.mallory(`SELECT convert_from(key, 'UTF8') FROM `+usual+` WHERE key = 'line/orders'`) != "line/orders" {
		t.Error("he does not see the line")
	}
	for _, sql := range []string{"SELECT FROM " + usual + " FOR SHARE", "LOCK TABLE " + usual + " IN ROW EXCLUSIVE MODE"} {
		s.mayNot(sql)
	}
	c := dialed(t, s.url("mallory"))
	defer c.Close(context.Background())
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(within(t, 10*time.Second), `LOCK TABLE `+usual+` IN ACCESS SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	storecheck.ShutsOut(t, a, b, "orders")
}

func TestAStrangerWhoMayInsert(t *testing.T) {
	s := withStrangers(t)
	a, b := s.used("INSERT")
	s.mallory(`INSERT INTO ` + usual + ` (key, version, value) VALUES ('line/spoilt', 1, 'x')`)
	storecheck.SpoilsOneLine(t, a, b, "spoilt")
	for _, sql := range []string{"DELETE FROM " + usual, "UPDATE " + usual + " SET value = ''", "SELECT FROM " + usual,
		"INSERT INTO " + usual + " (key, version, value) VALUES ('epoch', 1, 'x')", // all new lines would be refused
		"INSERT INTO " + usual + " (key, version, value) VALUES ('line/orders', 1, '') ON CONFLICT (key) DO UPDATE SET value = ''"} {
		s.mayNot(sql)
	}
}

// A row that nobody sees yet keeps others from making one of that name, until its transaction ends.
func TestAStrangerWhoMayInsertKeepsLinesWaiting(t *testing.T) {
	s := withStrangers(t)
	a, b := s.used("INSERT")
	c := dialed(t, s.url("mallory"))
	defer c.Close(context.Background())
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(within(t, 10*time.Second), `INSERT INTO `+usual+` (key, version, value) VALUES ('line/spoilt', 1, 'x')`); err != nil {
		t.Fatal(err)
	}
	one, err := Open(within(t, time.Minute), s.url("app"), WithLogger(logger(t)), WithConnections(1))
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	storecheck.RenewedBeside(t, one, storecheck.PutIn(one, "line/spoilt"))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := mutex.New(b, "spoilt").Lock(ctx); err == nil {
		t.Error("the line is not locked")
	}
	storecheck.ShutsOut(t, a, b, "more")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	storecheck.Locked(t, b, "spoilt")
}

// Whoever may change rows may change all of them, and lock the whole table. A hold ends all the same when it must.
func TestAStrangerWhoMayUpdate(t *testing.T) {
	s := withStrangers(t)
	a, b := s.used("UPDATE")
	h := storecheck.Locked(t, a, "orders")
	c := dialed(t, s.url("mallory"))
	defer c.Close(context.Background())
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(within(t, 10*time.Second), `LOCK TABLE `+usual+` IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	storecheck.EndsSoon(t, h)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	storecheck.ShutsOut(t, a, b, "more")
	s.mallory(`UPDATE ` + usual + ` SET value = 'x'`)
	storecheck.SpoilsAll(t, a)
	s.mayNot("DROP TABLE " + usual)
	s.mayNot(strings.ReplaceAll(traps["a trigger"], "{t}", usual))
}

func TestAStrangerWhoMayDelete(t *testing.T) {
	for _, c := range []struct{ right, sql string }{{"DELETE", "DELETE FROM " + usual}, {"TRUNCATE", "TRUNCATE " + usual}} {
		t.Run(c.right, func(t *testing.T) {
			s := withStrangers(t)
			a, b := s.used(c.right)
			storecheck.Emptied(t, a, b, func() { s.mallory(c.sql) })
		})
	}
}

// MAINTAIN lets him lock the table in any mode, and have the server rebuild it.
func TestAStrangerWhoMayMaintain(t *testing.T) {
	s := withStrangers(t)
	if s.admin(`SELECT current_setting('server_version_num')::int >= 170000`) != "t" {
		t.Skip("there is such a right from PostgreSQL 17 on")
	}
	a, b := s.used("MAINTAIN")
	h := storecheck.Locked(t, a, "orders")
	for _, sql := range []string{"ANALYZE " + usual, "REINDEX TABLE " + usual, "VACUUM FULL " + usual, "CLUSTER " + usual + " USING turnwise_register_pkey"} {
		s.mallory(sql)
	}
	if err := h.Err(); err != nil {
		t.Errorf("the hold has ended: %v", err)
	}
	c := dialed(t, s.url("mallory"))
	defer c.Close(context.Background())
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(within(t, 10*time.Second), `LOCK TABLE `+usual+` IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	storecheck.EndsSoon(t, h)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	storecheck.ShutsOut(t, a, b, "more")
	for _, sql := range []string{"SELECT FROM " + usual, "DELETE FROM " + usual, "TRUNCATE " + usual, "DROP TABLE " + usual} {
		s.mayNot(sql)
	}
	s.nothingRan()
}

// pg_monitor sees what others have sent last.
func TestAStrangerWhoMayMonitor(t *testing.T) {
	s := withStrangers(t)
	s.admin(`GRANT pg_monitor TO mallory`)
	a, b := s.app(), s.app()
	for range 20 {
		storecheck.ShutsOut(t, a, b, "orders-4711")
		if seen := s.mallory(`SELECT coalesce(string_agg(query, ' | '), '') FROM pg_stat_activity WHERE usename = 'app'`); seen == "" || strings.Contains(seen, "orders") {
			t.Fatalf("he sees %q", seen)
		}
	}
	s.mayNot("SELECT FROM " + usual)
}

// pg_signal_backend ends connections, also those of a holder.
func TestAStrangerWhoMayEndConnections(t *testing.T) {
	s := withStrangers(t)
	s.admin(`GRANT pg_signal_backend TO mallory`)
	a, b := s.app(WithTTL(10*time.Second)), s.app(WithTTL(10*time.Second))
	storecheck.ConnectionsEnded(t, a, b, func() {
		s.mallory(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'app'`)
	})
}

// A standby gets all that is written, in whatever table, whatever rights its role has there.
func TestAStrangerWhoMayReplicate(t *testing.T) {
	s := withStrangers(t)
	s.admin(`ALTER ROLE mallory REPLICATION`)
	a, b := s.app(), s.app()
	cfg, err := pgconn.ParseConfig(s.url("mallory"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["replication"] = "true"
	c, err := pgconn.ConnectConfig(within(t, 20*time.Second), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	c.Frontend().Send(&pgproto3.Query{String: "START_REPLICATION PHYSICAL " + s.admin(`SELECT pg_current_wal_lsn()`)})
	if err := c.Frontend().Flush(); err != nil {
		t.Fatal(err)
	}
	storecheck.ShutsOut(t, a, b, "orders-4711")
	for ctx := within(t, 30*time.Second); ; {
		m, err := c.ReceiveMessage(ctx)
		if err != nil {
			t.Fatalf("he sees no line: %v", err)
		}
		if d, ok := m.(*pgproto3.CopyData); ok && strings.Contains(string(d.Data), "line/orders-4711") {
			break
		}
	}
	for _, sql := range []string{"SELECT FROM " + usual, "DELETE FROM " + usual} {
		s.mayNot(sql)
	}
}

// Before release 16 whoever may make roles may do with others as he likes, but with superusers.
func TestAStrangerWhoMayMakeRoles(t *testing.T) {
	s := withStrangers(t)
	s.admin(`ALTER ROLE mallory CREATEROLE`)
	a, _ := s.app(), s.app()
	if s.admin(`SELECT current_setting('server_version_num')::int >= 160000`) == "t" {
		for _, sql := range []string{"GRANT app TO mallory", "ALTER ROLE app PASSWORD 'x'", "ALTER ROLE app SET statement_timeout = 1"} {
			s.mayNot(sql)
		}
		return
	}
	s.mallory(`GRANT app TO mallory`, `UPDATE `+usual+` SET value = 'x'`)
	storecheck.SpoilsAll(t, a)
}

// With SELECT he can choose the line.
func TestAStrangerWhoMaySelectAndDelete(t *testing.T) {
	s := withStrangers(t)
	a, b := s.used("SELECT, DELETE")
	storecheck.LineTaken(t, a, b, func() { s.mallory(`DELETE FROM ` + usual + ` WHERE key = 'line/orders'`) })
}

// Locks stand in one table of the server's, in which each transaction that writes needs a place, too. Whoever fills that, in whatever
// database, has all holds end in time. Nobody is let in meanwhile.
func TestAStrangerOfAnotherDatabaseWhoFillsTheTableOfLocks(t *testing.T) {
	s := withStrangers(t, servers.Config("max_locks_per_transaction = 10")) // so it takes him less time
	s.admin(`CREATE DATABASE theirs`, `REVOKE CONNECT ON DATABASE postgres FROM PUBLIC`, `GRANT CONNECT ON DATABASE postgres TO app`)
	theirs := storecheck.As(t, s.m.URL(), "mallory", "", "theirs")
	a, b := s.app(WithLongestTTL(2*time.Second)), s.app(WithLongestTTL(2*time.Second))
	for _, way := range []struct{ name, one, revoke string }{
		{"advisory locks", `PERFORM pg_advisory_lock(n)`, revokeAdvisory},
		{"temporary tables", `EXECUTE format('CREATE TEMPORARY TABLE t%s ()', n)`, `REVOKE TEMPORARY ON DATABASE theirs FROM PUBLIC`},
		{"large objects", `PERFORM lo_unlink(lo_create(0))`, `REVOKE EXECUTE ON FUNCTION lo_create(oid), lo_creat(integer), lo_from_bytea(oid, bytea) FROM PUBLIC`},
	} {
		t.Run(way.name, func(t *testing.T) {
			h := storecheck.Locked(t, a, "orders")
			c := dialed(t, theirs)
			defer c.Close(context.Background())
			ctx, enough := context.WithCancel(within(t, time.Minute))
			over := make(chan error, 1)
			go func() {
				_, err := c.Exec(ctx, `DO $$ DECLARE n int := 0; BEGIN LOOP
					BEGIN `+way.one+`; n := n + 1; EXCEPTION WHEN out_of_memory THEN NULL; END; END LOOP; END $$`)
				over <- err
			}()
			storecheck.EndsSoon(t, h)
			if _, err := mutex.New(b, "orders").TryLock(within(t, time.Second)); err == nil {
				t.Error("somebody is let in meanwhile")
			}
			enough()
			<-over
			_ = h.Release()
			storecheck.ShutsOut(t, a, b, "orders")
			query(t, storecheck.As(t, s.m.URL(), "postgres", "", "theirs"), way.revoke)
			again := dialed(t, theirs)
			defer again.Close(context.Background())
			if _, err := again.Exec(within(t, 10*time.Second), `DO $$ DECLARE n int := 0; BEGIN `+way.one+`; END $$`); err == nil || !strings.Contains(err.Error(), "42501") {
				t.Errorf("without the right: %v", err)
			}
		})
	}
}

// revokeAdvisory is what docs/security.md says, for one database.
const revokeAdvisory = `DO $$ DECLARE f text; BEGIN
  FOR f IN SELECT oid::regprocedure FROM pg_proc WHERE proname ~ '^pg_(try_)?advisory_' LOOP
    EXECUTE 'REVOKE EXECUTE ON FUNCTION ' || f || ' FROM PUBLIC';
  END LOOP; END $$`

// A standby begins with all the files that there are: in these stand the passwords of all roles, and what else lies there. As MD5 they are as
// good as the passwords themselves.
func TestAStrangerWhoMayReplicateTakesThePasswords(t *testing.T) {
	s := withStrangers(t)
	a := s.app()
	s.admin(`SET password_encryption = 'md5'; ALTER ROLE app PASSWORD 'a long one that nobody guesses'`,
		`SET password_encryption = 'scram-sha-256'; CREATE ROLE other PASSWORD 'a long one that nobody guesses'`, `ALTER ROLE mallory REPLICATION`,
		`DO $$ BEGIN EXECUTE format('COPY (SELECT unnest(ARRAY[''host all app 127.0.0.1/32 md5'', ''host all,replication all 127.0.0.1/32 trust''])) TO %L', current_setting('hba_file'));
			EXECUTE format('COPY (SELECT ''the key of the server'') TO %L', current_setting('data_directory') || '/server.key'); END $$`, `SELECT pg_reload_conf()`)
	storecheck.Eventually(t, "app needs its password", func() bool {
		c, err := pgconn.Connect(within(t, 10*time.Second), s.url("app"))
		if err == nil {
			c.Close(context.Background())
		}
		return err != nil
	})
	for _, sql := range []string{"UPDATE " + usual + " SET value = 'x'", "SELECT rolpassword FROM pg_authid"} {
		s.mayNot(sql)
	}
	all := s.backedUp()
	for _, what := range []string{"the key of the server", "SCRAM-SHA-256$4096:"} {
		if !strings.Contains(all, what) {
			t.Errorf("he does not see %s", what)
		}
	}
	for _, hash := range regexp.MustCompile(`md5[0-9a-f]{32}`).FindAllString(all, -1) {
		if err := s.asAppBy(hash, `UPDATE `+usual+` SET value = 'x'`); err == nil {
			storecheck.SpoilsAll(t, a)
			return
		}
	}
	t.Error("no hash has let him in")
}

// backedUp is what mallory gets who asks for a backup.
func (s *strangers) backedUp() string {
	s.t.Helper()
	cfg, err := pgconn.ParseConfig(s.url("mallory"))
	if err != nil {
		s.t.Fatal(err)
	}
	cfg.RuntimeParams["replication"] = "true"
	c, err := pgconn.ConnectConfig(within(s.t, 20*time.Second), cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close(context.Background())
	c.Frontend().Send(&pgproto3.Query{String: "BASE_BACKUP (CHECKPOINT 'fast', WAIT false, MANIFEST 'no')"})
	if err := c.Frontend().Flush(); err != nil {
		s.t.Fatal(err)
	}
	var all strings.Builder
	for ctx := within(s.t, time.Minute); ; {
		m, err := c.ReceiveMessage(ctx)
		if err != nil {
			s.t.Fatal(err)
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			s.t.Fatal(m.Message)
		case *pgproto3.CopyData:
			all.Write(m.Data)
		case *pgproto3.ReadyForQuery:
			return all.String()
		}
	}
}

// asAppBy logs in as app with a hash in the place of the password, and runs a statement.
func (s *strangers) asAppBy(hash, sql string) error {
	s.t.Helper()
	n, err := net.Dial("tcp", s.m.Addr())
	if err != nil {
		return err
	}
	defer n.Close()
	_ = n.SetDeadline(time.Now().Add(20 * time.Second))
	f := pgproto3.NewFrontend(n, n)
	say := func(m pgproto3.FrontendMessage) { f.Send(m); _ = f.Flush() }
	say(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersionNumber, Parameters: map[string]string{"user": "app", "database": "postgres"}})
	for asked := false; ; {
		m, err := f.Receive()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *pgproto3.AuthenticationMD5Password:
			sum := md5.Sum(append([]byte(hash[len("md5"):]), m.Salt[:]...))
			say(&pgproto3.PasswordMessage{Password: "md5" + hex.EncodeToString(sum[:])})
		case *pgproto3.ErrorResponse:
			return errors.New(m.Message)
		case *pgproto3.ReadyForQuery:
			if asked {
				return nil
			}
			asked = true
			say(&pgproto3.Query{String: sql})
		}
	}
}

// pg_write_all_data is the right to change any table, of whatever schema.
func TestAStrangerWhoMayWriteAllData(t *testing.T) {
	s := withStrangers(t)
	if s.admin(`SELECT current_setting('server_version_num')::int >= 140000`) != "t" {
		t.Skip("there is such a role from PostgreSQL 14 on")
	}
	a := s.app()
	s.mayNot(`UPDATE ` + usual + ` SET value = 'x'`)
	s.admin(`GRANT pg_write_all_data TO mallory`)
	s.mallory(`UPDATE ` + usual + ` SET value = 'x'`)
	storecheck.SpoilsAll(t, a)
}

// A program that the server runs may do with its files as it likes.
func TestAStrangerWhoMayHaveTheServerRunPrograms(t *testing.T) {
	s := withStrangers(t)
	const run = `COPY (SELECT 'his') TO PROGRAM 'cat > his.conf'`
	s.mayNot(run)
	s.admin(`GRANT pg_execute_server_program TO mallory`)
	s.mallory(run)
	if s.admin(`SELECT pg_read_file('his.conf') LIKE 'his%'`) != "t" {
		t.Error("the server's folder has no file of his")
	}
}

// A file that the server goes by is one of those that he may write to.
func TestAStrangerWhoMayWriteTheServersFiles(t *testing.T) {
	s := withStrangers(t)
	write := `COPY (SELECT 'fsync = off') TO '` + s.admin(`SHOW data_directory`) + `/postgresql.auto.conf'`
	s.mayNot(write)
	s.admin(`GRANT pg_write_server_files TO mallory`)
	s.mallory(write)
	s.admin(`SELECT pg_reload_conf()`)
	storecheck.Eventually(t, "the server does as he says", func() bool { return s.admin(`SHOW fsync`) == "off" })
}

// What he may read is text, such as a key, or what a log has of statements.
func TestAStrangerWhoMayReadTheServersFiles(t *testing.T) {
	s := withStrangers(t)
	read := `CREATE TEMPORARY TABLE seen (line text); COPY seen FROM '` + s.admin(`SHOW hba_file`) + `' WITH (DELIMITER E'\x01'); SELECT count(*) FROM seen`
	s.mayNot(read)
	s.admin(`GRANT pg_read_server_files TO mallory`)
	if n := s.mallory(read); n == "0" {
		t.Error("he has read nothing")
	}
}

func TestAStrangerWhoMayReadAllData(t *testing.T) {
	s := withStrangers(t)
	if s.admin(`SELECT current_setting('server_version_num')::int >= 140000`) != "t" {
		t.Skip("there is such a role from PostgreSQL 14 on")
	}
	a, b := s.app(), s.app()
	h := storecheck.Locked(t, a, "orders")
	s.admin(`GRANT pg_read_all_data TO mallory`)
	if s.mallory(`SELECT convert_from(key, 'UTF8') FROM `+usual+` WHERE key = 'line/orders'`) != "line/orders" {
		t.Error("he does not see the line")
	}
	s.mayNot("SELECT FROM " + usual + " FOR SHARE")
	storecheck.IsBusy(t, b, "orders")
	if err := h.Release(); err != nil {
		t.Error(err)
	}
}
