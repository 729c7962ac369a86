package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

// Each of them is a mistake that no retry mends: one line says what to do, at once.
func TestWhatOpenRefuses(t *testing.T) {
	m := servers.Postgres(t, servers.Password("secret"), servers.Fsync()).Member(0)
	standby := servers.Postgres(t, servers.Password("secret"), servers.ReplicaOf(m)).Member(0)
	query(t, m.URL(), `CREATE ROLE poor LOGIN PASSWORD 'poor'`, `REVOKE CREATE ON SCHEMA public FROM PUBLIC`,
		`CREATE TABLE public.alien (id int)`,
		Schema("public.newer"), `UPDATE public.newer SET value = 'turnwise register, layout 2, x' WHERE key = ''`,
		strings.Replace(Schema("public.volatile"), "CREATE TABLE", "CREATE UNLOGGED TABLE", 1),
		`CREATE VIEW public.seen AS SELECT 1`,
		Schema("public.hidden"), `ALTER TABLE public.hidden ENABLE ROW LEVEL SECURITY`, `GRANT ALL ON public.hidden TO poor`,
		Schema("public.readable"), `GRANT SELECT ON public.readable TO poor`)
	for name, c := range map[string]struct {
		url  string
		opts []Option
		says string
		is   error
	}{
		"no URL":           {"postgres://[", nil, "cannot parse", coord.ErrInvalid},
		"a table's name":   {m.URL(), []Option{WithTable("a.b.c")}, "schema.table", coord.ErrInvalid},
		"a dollar in it":   {m.URL(), []Option{WithTable("a$turnwise$b")}, "dollars", coord.ErrInvalid},
		"a wrong password": {storecheck.As(t, m.URL(), "postgres", "wrong", ""), nil, "password is wrong", driver.ErrDenied},
		"no such role":     {storecheck.As(t, m.URL(), "nobody", "x", ""), nil, "password is wrong", driver.ErrDenied},
		"no such database": {storecheck.As(t, m.URL(), "", "", "nowhere"), nil, "CREATE DATABASE", driver.ErrMissing},
		"may not create":   {storecheck.As(t, m.URL(), "poor", "poor", ""), nil, `postgres.Schema("public.turnwise_register")`, driver.ErrDenied},
		"no such schema":   {m.URL(), []Option{WithTable("no.where")}, `postgres.Schema("no.where")`, driver.ErrMissing},
		"may only read":    {storecheck.As(t, m.URL(), "poor", "poor", ""), []Option{WithTable("readable")}, "GRANT SELECT, INSERT, UPDATE, DELETE", driver.ErrDenied},
		"another's table":  {m.URL(), []Option{WithTable("alien")}, "another layout", driver.ErrDenied},
		"a newer layout":   {m.URL(), []Option{WithTable("newer")}, "another version of turnwise", driver.ErrDenied},
		"an empty crash":   {m.URL(), []Option{WithTable("volatile")}, `ALTER TABLE "public"."volatile" SET LOGGED`, driver.ErrDenied},
		"a view":           {m.URL(), []Option{WithTable("seen")}, "no plain table", driver.ErrDenied},
		"hidden rows":      {storecheck.As(t, m.URL(), "poor", "poor", ""), []Option{WithTable("hidden")}, `ALTER TABLE "public"."hidden" DISABLE ROW LEVEL SECURITY`, driver.ErrDenied},
		"a standby":        {standby.URL(), nil, "URL of the primary", driver.ErrDenied},
		"a wrong echo":     {"postgres://u@127.0.0.1:1/d", []Option{WithListenURL("postgres://u:secret@[")}, "WithListenURL", coord.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(within(t, 20*time.Second), c.url, append(c.opts, WithLogger(logger(t)))...)
			storecheck.Refused(t, err, c.is, c.says)
		})
	}
}

func TestNobodyThereIsSaidInTime(t *testing.T) {
	storecheck.NobodyThere(t, ",", func(ctx context.Context, address string) error {
		_, err := Open(ctx, "postgres://u@"+address+"/d")
		return err
	})
}

// Somebody who may do so makes the table, and a role with the least rights uses it.
func TestATableMadeByHandNeedsFewRights(t *testing.T) {
	m := durable(t)
	query(t, m.URL(), `CREATE ROLE poor LOGIN`, `CREATE SCHEMA locks`, Schema("locks.Of us"), Schema("locks.Of us"),
		`GRANT USAGE ON SCHEMA locks TO poor`, `GRANT SELECT, INSERT, UPDATE, DELETE ON locks."Of us" TO poor`)
	s := opened(t, storecheck.As(t, m.URL(), "poor", "", ""), WithTable("locks.Of us"))
	it := put(t, s, register.Item{Key: "k"}, "1")
	it = put(t, s, it, "2")
	remove(t, s, it)

	query(t, m.URL(), `REVOKE INSERT ON locks."Of us" FROM poor`)
	_, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: "k", Next: register.NewVersion()})
	if !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "GRANT") {
		t.Errorf("a swap that is not allowed: %v", err)
	}
	query(t, m.URL(), `TRUNCATE locks."Of us"`) // what has been emptied is to be filled
	_, err = Open(within(t, 20*time.Second), storecheck.As(t, m.URL(), "poor", "", ""), WithTable("locks.Of us"))
	storecheck.Refused(t, err, driver.ErrDenied, "GRANT")
	query(t, m.URL(), `DROP TABLE locks."Of us"`)
	if _, err = s.Read(within(t, 10*time.Second), "k"); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "dropped") {
		t.Errorf("a table that is gone: %v", err)
	}
}

func TestManyMayMakeTheTableAtOnce(t *testing.T) {
	m := sharedServer(t)
	table := freshTable()
	storecheck.ManyOpen(t, func(ctx context.Context) (register.Store, error) {
		return Open(ctx, m.URL(), WithTable(table), WithPolling())
	})
}

func TestACertificateThatIsNotToBeTrustedIsSaidAtOnce(t *testing.T) {
	stranger := httptest.NewTLSServer(nil)
	defer stranger.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(c, make([]byte, 8)) // it asks whether we speak TLS
			_, _ = c.Write([]byte("S"))
			_ = tls.Server(c, stranger.TLS).Handshake()
			c.Close()
		}
	}()
	begun := time.Now()
	_, err = Open(within(t, 20*time.Second), "postgres://u@"+l.Addr().String()+"/d?sslmode=verify-full")
	if !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "sslrootcert") || strings.Contains(err.Error(), "\n") {
		t.Errorf("open: %v", err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it came back after %v", took)
	}
}
