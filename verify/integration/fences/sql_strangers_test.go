package fences

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
	"github.com/turnwise/turnwise/fence/sqlfence"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

// neighbours is a PostgreSQL like one of a release before 15: everybody may create in the schema public. mallory may do nothing
// else, and app uses fences.
type neighbours struct {
	*testing.T
	admin, app, mallory *sql.DB
	table               string
}

func neighboursOn(t *testing.T) *neighbours {
	n := &neighbours{T: t, table: fmt.Sprintf("fence_%d", rand.Uint64())}
	m := servers.Postgres(t)
	n.admin = opened(t, "pgx", m.URL())
	n.does(n.admin, `CREATE ROLE mallory LOGIN`, `CREATE ROLE app LOGIN`, `CREATE ROLE keeper LOGIN`, `GRANT CREATE ON SCHEMA public TO PUBLIC`,
		`CREATE SEQUENCE public.caught`, `GRANT USAGE ON SEQUENCE public.caught TO PUBLIC`) // which no rollback sets back
	n.app = opened(t, "pgx", storecheck.As(t, m.URL(), "app", "", ""))
	n.mallory = opened(t, "pgx", storecheck.As(t, m.URL(), "mallory", "", ""))
	n.does(n.mallory, `CREATE FUNCTION public.snap() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
			IF current_user <> 'mallory' THEN PERFORM pg_catalog.nextval('public.caught'); END IF; RETURN 1; END $$`,
		`CREATE FUNCTION public.on_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM public.snap(); RETURN NEW; END $$`,
		`CREATE FUNCTION public.on_sight(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM public.snap(); RETURN $1; END $$`)
	return n
}

func (n *neighbours) does(db *sql.DB, statements ...string) {
	n.Helper()
	for _, text := range statements {
		_, err := db.ExecContext(n.Context(), strings.ReplaceAll(text, "{t}", n.table))
		require.NoError(n, err, text)
	}
}

func (n *neighbours) nothingRan() {
	n.Helper()
	var ran bool
	require.NoError(n, n.admin.QueryRowContext(n.Context(), `SELECT is_called FROM public.caught`).Scan(&ran))
	assert.False(n, ran, "mallory's code has run with the rights of somebody else")
}

const squatted = `CREATE TABLE {t} (line text PRIMARY KEY, epoch bigint NOT NULL, token bigint NOT NULL)`

// Whoever may create in a schema can make the table before we do. Code of his is not run with our rights.
func TestSQLRefusesATableOfAStrangers(t *testing.T) {
	for what, made := range map[string][]string{
		"a trigger": {squatted, `CREATE TRIGGER x BEFORE INSERT ON {t} FOR EACH STATEMENT EXECUTE FUNCTION public.on_change()`},
		"a view": {`CREATE TABLE {t}_0 (line text PRIMARY KEY, epoch bigint NOT NULL, token bigint NOT NULL)`,
			`CREATE VIEW {t} AS SELECT line, epoch, token FROM {t}_0 WHERE public.on_sight(1) = 1`, `GRANT ALL ON {t}_0 TO PUBLIC`},
		"a rule":  {squatted, `CREATE RULE x AS ON INSERT TO {t} DO INSTEAD SELECT public.snap()`},
		"nothing": {squatted},
	} {
		t.Run(what, func(t *testing.T) {
			n := neighboursOn(t)
			n.does(n.mallory, append(made, `GRANT ALL ON {t} TO PUBLIC`)...)
			f, err := sqlfence.New(sqlfence.Postgres, n.table)
			require.NoError(t, err)
			assert.ErrorIs(t, f.Create(t.Context(), n.app), coord.ErrDenied)
			assert.ErrorIs(t, f.On(n.app).Pass(context.Background(), "a", fence.Stamp{Token: 1}), coord.ErrDenied)
			n.nothingRan()
		})
	}
}

// Whose table it is decides, and who may make triggers on it.
func TestSQLTrustsTheOwnerOfTheTable(t *testing.T) {
	n := neighboursOn(t)
	f, err := sqlfence.New(sqlfence.Postgres, n.table)
	require.NoError(t, err)
	n.does(n.admin, squatted, `GRANT ALL ON {t} TO PUBLIC`, `ALTER TABLE {t} OWNER TO keeper`)
	pass := func(f *sqlfence.Fence, token coord.Token) error {
		return f.On(n.app).Pass(t.Context(), "a", fence.Stamp{Token: token})
	}
	assert.ErrorContains(t, pass(f, 1), "belongs to keeper")
	assert.NoError(t, f.OwnedBy("keeper").Create(t.Context(), n.app))
	assert.NoError(t, pass(f.OwnedBy("keeper"), 2))
	assert.ErrorIs(t, pass(f.OwnedBy("it's"), 3), coord.ErrDenied)
	n.does(n.admin, `ALTER TABLE {t} OWNER TO app`)
	assert.NoError(t, pass(f, 4))
	n.does(n.mallory, `CREATE TRIGGER x BEFORE UPDATE ON {t} FOR EACH STATEMENT EXECUTE FUNCTION public.on_change()`)
	assert.ErrorContains(t, pass(f.OwnedBy(""), 5), "has a trigger")
	n.nothingRan()
}

// A view in the place of the table could call functions with our rights.
func TestSQLRefusesAViewOnMariaDB(t *testing.T) {
	db := opened(t, "mysql", mysqlAddress(servers.MariaDB(t, servers.Shared()).URL()))
	table := fmt.Sprintf("fence_%d", rand.Uint64())
	base, err := sqlfence.New(sqlfence.MySQL, table+"_0")
	require.NoError(t, err)
	require.NoError(t, base.Create(t.Context(), db))
	_, err = db.ExecContext(t.Context(), "CREATE VIEW "+table+" AS SELECT * FROM "+table+"_0")
	require.NoError(t, err)
	f, err := sqlfence.New(sqlfence.MySQL, table)
	require.NoError(t, err)
	assert.ErrorIs(t, f.Create(t.Context(), db), coord.ErrDenied)
	assert.NoError(t, base.Create(t.Context(), db))
}

// Whoever may create in a database decides what the table is like, if he comes before us. One like these lets stale stamps through, forgets,
// lets two pass at once, or takes one line for another.
func TestSQLRefusesAStrangersLayoutOnMariaDB(t *testing.T) {
	db := opened(t, "mysql", mysqlAddress(servers.MariaDB(t, servers.Shared()).URL()))
	_, err := db.ExecContext(t.Context(), `CREATE TABLE IF NOT EXISTS his_lines (line VARBINARY(1100) NOT NULL PRIMARY KEY)`)
	require.NoError(t, err)
	for what, made := range map[string]string{
		"a wider key":        `(line VARBINARY(1100) NOT NULL, epoch BIGINT NOT NULL, token BIGINT NOT NULL, passes BIGINT NOT NULL DEFAULT 1, PRIMARY KEY (line, epoch, token))`,
		"no key":             `(line VARBINARY(1100) NOT NULL, epoch BIGINT NOT NULL, token BIGINT NOT NULL, passes BIGINT NOT NULL DEFAULT 1)`,
		"half a key":         `(line VARBINARY(1100) NOT NULL, epoch BIGINT NOT NULL, token BIGINT NOT NULL, passes BIGINT NOT NULL DEFAULT 1, PRIMARY KEY (line(3)))`,
		"another unique one": `(line VARBINARY(1100) NOT NULL PRIMARY KEY, epoch BIGINT NOT NULL, token BIGINT NOT NULL UNIQUE, passes BIGINT NOT NULL DEFAULT 1)`,
		"names that are alike": `(line VARCHAR(700) NOT NULL PRIMARY KEY, epoch BIGINT NOT NULL, token BIGINT NOT NULL, passes BIGINT NOT NULL DEFAULT 1)
			CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci`,
		"names cut short": `(line VARBINARY(3) NOT NULL PRIMARY KEY, epoch BIGINT NOT NULL, token BIGINT NOT NULL, passes BIGINT NOT NULL DEFAULT 1)`,
		"rounded tokens":  `(line VARBINARY(1100) NOT NULL PRIMARY KEY, epoch BIGINT NOT NULL, token FLOAT NOT NULL, passes BIGINT NOT NULL DEFAULT 1)`,
		"a column more":   `(line VARBINARY(1100) NOT NULL PRIMARY KEY, epoch BIGINT NOT NULL, token BIGINT NOT NULL, passes BIGINT NOT NULL DEFAULT 1, more INT NULL)`,
		"another engine":  `(line VARBINARY(1100) NOT NULL PRIMARY KEY, epoch BIGINT NOT NULL, token BIGINT NOT NULL, passes BIGINT NOT NULL DEFAULT 1) ENGINE = Aria`,
		"only in memory":  `(line VARBINARY(1100) NOT NULL PRIMARY KEY, epoch BIGINT NOT NULL, token BIGINT NOT NULL, passes BIGINT NOT NULL DEFAULT 1) ENGINE = MEMORY`,
		"a check":         `(line VARBINARY(1100) NOT NULL PRIMARY KEY, epoch BIGINT NOT NULL, token BIGINT NOT NULL, passes BIGINT NOT NULL DEFAULT 1, CHECK (token > 0))`,
		"a parent": `(line VARBINARY(1100) NOT NULL PRIMARY KEY, epoch BIGINT NOT NULL, token BIGINT NOT NULL, passes BIGINT NOT NULL DEFAULT 1,
			FOREIGN KEY (line) REFERENCES his_lines (line) ON DELETE CASCADE)`,
		"a sequence of it": ``,
	} {
		t.Run(what, func(t *testing.T) {
			table := fmt.Sprintf("fence_%d", rand.Uint64())
			statement := "CREATE TABLE " + table + " " + made
			if made == "" {
				statement = "CREATE SEQUENCE " + table
			}
			_, err := db.ExecContext(t.Context(), statement)
			require.NoError(t, err)
			f, err := sqlfence.New(sqlfence.MySQL, table)
			require.NoError(t, err)
			assert.ErrorIs(t, f.Create(t.Context(), db), coord.ErrDenied)
			pass := func(line string, token coord.Token) error {
				return f.On(db).Pass(t.Context(), line, fence.Stamp{Token: token})
			}
			if made != "" { // what it would do
				t.Log("newer:", pass("a", 1<<40+512), "stale:", pass("a", 1<<40+256), "another line:", pass("A", 256))
			}
		})
	}
}
