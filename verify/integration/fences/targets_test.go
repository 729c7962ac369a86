package fences

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	_ "modernc.org/sqlite"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
	"github.com/turnwise/turnwise/fence/httpfence"
	"github.com/turnwise/turnwise/fence/redisfence"
	"github.com/turnwise/turnwise/fence/sqlfence"
	"github.com/turnwise/turnwise/sharedfile"
)

const line = "ledger"

// target is a place that holders write to.
type target struct {
	write func(ctx context.Context, s fence.Stamp, value string) error
	read  func(ctx context.Context) (string, error)
	close func()
}

// kinds are how a process reaches each target at its address.
var kinds = map[string]func(address string) (*target, error){
	"postgres":      func(a string) (*target, error) { return openSQL(sqlfence.Postgres, a) },
	"mariadb":       func(a string) (*target, error) { return openSQL(sqlfence.MySQL, a) },
	"sqlite":        func(a string) (*target, error) { return openSQL(sqlfence.SQLite, a) },
	"go-redis":      func(a string) (*target, error) { return openRedis(goRedis, a) },
	"rueidis":       func(a string) (*target, error) { return openRedis(viaRueidis, a) },
	"http":          openHTTP,
	"a shared file": openFile,
	"no fence":      openUnfenced,
}

func openDB(d sqlfence.Dialect, address string) (*sql.DB, error) {
	driver := map[sqlfence.Dialect]string{sqlfence.Postgres: "pgx", sqlfence.MySQL: "mysql", sqlfence.SQLite: "sqlite"}[d]
	switch d {
	case sqlfence.MySQL:
		address = mysqlAddress(address)
	case sqlfence.SQLite:
		address += "?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)"
	}
	return sql.Open(driver, address)
}

// mysqlAddress turns a URL into what the driver takes.
func mysqlAddress(url string, params ...string) string {
	rest := strings.TrimPrefix(url, "mysql://")
	user, rest, _ := strings.Cut(rest, "@")
	host, database, _ := strings.Cut(rest, "/")
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, _ = strings.Cut(user, ":")
	cfg.Net, cfg.Addr, cfg.DBName = "tcp", host, database
	return cfg.FormatDSN() + "?" + strings.Join(params, "&")
}

var placeholder = map[sqlfence.Dialect]string{sqlfence.Postgres: "$1", sqlfence.MySQL: "?", sqlfence.SQLite: "?"}

func openSQL(d sqlfence.Dialect, address string) (*target, error) {
	db, err := openDB(d, address)
	if err != nil {
		return nil, err
	}
	fences, err := sqlfence.New(d, "")
	if err == nil {
		err = fences.Create(context.Background(), db)
	}
	if err == nil {
		_, err = db.Exec("CREATE TABLE IF NOT EXISTS ledger (value VARCHAR(100))")
	}
	if err != nil {
		return nil, err
	}
	return &target{
		write: func(ctx context.Context, s fence.Stamp, value string) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := fences.Pass(ctx, tx, line, s); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "DELETE FROM ledger"); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO ledger VALUES ("+placeholder[d]+")", value); err != nil {
				return err
			}
			return tx.Commit()
		},
		read: func(ctx context.Context) (value string, err error) {
			return value, db.QueryRowContext(ctx, "SELECT value FROM ledger").Scan(&value)
		},
		close: func() { db.Close() },
	}, nil
}

// goRedis and viaRueidis do what the package comment of redisfence shows.
func goRedis(url string) (redisfence.Eval, func(), error) {
	opts, err := goredis.ParseURL(url)
	if err != nil {
		return nil, nil, err
	}
	client := goredis.NewClient(opts)
	return func(ctx context.Context, script string, keys, args []string) (any, error) {
		return goredis.NewScript(script).Run(ctx, client, keys, args).Result()
	}, func() { client.Close() }, nil
}

func viaRueidis(url string) (redisfence.Eval, func(), error) {
	opts, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, nil, err
	}
	opts.DisableCache = true
	client, err := rueidis.NewClient(opts)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, script string, keys, args []string) (any, error) {
		return rueidis.NewLuaScript(script).Exec(ctx, client, keys, args).ToAny()
	}, client.Close, nil
}

func openRedis(connect func(url string) (redisfence.Eval, func(), error), url string) (*target, error) {
	eval, closeClient, err := connect(url)
	if err != nil {
		return nil, err
	}
	fences := redisfence.New(eval)
	return &target{
		write: func(ctx context.Context, s fence.Stamp, value string) error {
			_, err := fences.Do(ctx, line, s, `return redis.call('SET', KEYS[1], ARGV[1])`, []string{"value:{ledger}"}, []string{value})
			return err
		},
		read: func(ctx context.Context) (string, error) {
			value, err := eval(ctx, `return redis.call('GET', KEYS[1])`, []string{"value:{ledger}"}, nil)
			return fmt.Sprint(value), err
		},
		close: closeClient,
	}, nil
}

func openHTTP(url string) (*target, error) {
	client := &http.Client{Transport: &http.Transport{}}
	do := func(ctx context.Context, method, body string, header http.Header) (string, error) {
		r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte(body)))
		if err != nil {
			return "", err
		}
		r.Header = header
		resp, err := client.Do(r)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		switch {
		case err != nil:
			return "", err
		case resp.StatusCode == http.StatusPreconditionFailed:
			return "", coord.ErrStale
		case resp.StatusCode != http.StatusOK:
			return "", errors.New(resp.Status)
		}
		return string(text), nil
	}
	return &target{
		write: func(ctx context.Context, s fence.Stamp, value string) error {
			header := http.Header{}
			httpfence.Set(header, line, s)
			_, err := do(ctx, http.MethodPut, value, header)
			return err
		},
		read:  func(ctx context.Context) (string, error) { return do(ctx, http.MethodGet, "", nil) },
		close: client.CloseIdleConnections,
	}, nil
}

func openFile(path string) (*target, error) {
	f, err := sharedfile.Open(nil, path)
	if err != nil {
		return nil, err
	}
	return &target{
		write: func(ctx context.Context, s fence.Stamp, value string) error {
			return f.Publish(ctx, s, func(w io.Writer) error { _, err := io.WriteString(w, value); return err })
		},
		read: func(ctx context.Context) (value string, err error) {
			err = f.Read(ctx, func(r io.Reader) error {
				text, err := io.ReadAll(r)
				value = string(text)
				return err
			})
			return value, err
		},
		close: func() {},
	}, nil
}

// openUnfenced has no fence: it shows that stale writes would be seen.
func openUnfenced(path string) (*target, error) {
	return &target{
		write: func(_ context.Context, _ fence.Stamp, value string) error {
			return os.WriteFile(path, []byte(value), 0o644)
		},
		read: func(context.Context) (string, error) {
			text, err := os.ReadFile(path)
			return string(text), err
		},
		close: func() {},
	}, nil
}

func open(t testing.TB, kind, address string) *target {
	t.Helper()
	g, err := kinds[kind](address)
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	t.Cleanup(g.close)
	return g
}
