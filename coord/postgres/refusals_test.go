package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/verify/servers"
)

// as returns the URL for another user and database.
func as(t testing.TB, u, user, password, database string) string {
	t.Helper()
	parsed, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		parsed.User = url.UserPassword(user, password)
	}
	if database != "" {
		parsed.Path = "/" + database
	}
	return parsed.String()
}

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
		"a TTL of nothing": {m.URL(), []Option{WithTTL(30)}, "nanoseconds", coord.ErrInvalid},
		"a wrong password": {as(t, m.URL(), "postgres", "wrong", ""), nil, "password is wrong", driver.ErrDenied},
		"no such role":     {as(t, m.URL(), "nobody", "x", ""), nil, "password is wrong", driver.ErrDenied},
		"no such database": {as(t, m.URL(), "", "", "nowhere"), nil, "CREATE DATABASE", driver.ErrDenied},
		"may not create":   {as(t, m.URL(), "poor", "poor", ""), nil, `postgres.Schema("public.turnwise_register")`, driver.ErrDenied},
		"no such schema":   {m.URL(), []Option{WithTable("no.where")}, `postgres.Schema("no.where")`, driver.ErrDenied},
		"may only read":    {as(t, m.URL(), "poor", "poor", ""), []Option{WithTable("readable")}, "GRANT SELECT, INSERT, UPDATE, DELETE", driver.ErrDenied},
		"another's table":  {m.URL(), []Option{WithTable("alien")}, "another layout", driver.ErrDenied},
		"a newer layout":   {m.URL(), []Option{WithTable("newer")}, "another version of turnwise", driver.ErrDenied},
		"an empty crash":   {m.URL(), []Option{WithTable("volatile")}, "SET LOGGED", driver.ErrDenied},
		"a view":           {m.URL(), []Option{WithTable("seen")}, "no plain table", driver.ErrDenied},
		"hidden rows":      {as(t, m.URL(), "poor", "poor", ""), []Option{WithTable("hidden")}, "DISABLE ROW LEVEL SECURITY", driver.ErrDenied},
		"a standby":        {standby.URL(), nil, "URL of the primary", driver.ErrDenied},
		"a wrong echo":     {m.URL(), []Option{WithTable("echo"), WithListenURL("postgres://[")}, "WithListenURL", coord.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(within(t, 20*time.Second), c.url, append(c.opts, WithLogger(logger(t)))...)
			switch {
			case err == nil:
				t.Fatal("it opens")
			case !errors.Is(err, c.is):
				t.Errorf("not %v: %v", c.is, err)
			case !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n"):
				t.Errorf("it says %v, want %q in one line", err, c.says)
			case strings.Contains(err.Error(), "secret"):
				t.Errorf("it shows the password: %v", err)
			}
		})
	}
}

func TestNobodyThereIsSaidInTime(t *testing.T) {
	const nobody = "127.0.0.1:1"
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	for _, addr := range []string{nobody, mute.Addr().String(), nobody + "," + mute.Addr().String()} {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		begun := time.Now()
		_, err := Open(ctx, "postgres://u@"+addr+"/d")
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrDenied) ||
			!strings.Contains(err.Error(), strings.Split(addr, ",")[0]) || strings.Contains(err.Error(), "\n") {
			t.Errorf("open: %v", err)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("it came back after %v", took)
		}
	}
}

// Somebody who may do so makes the table, and a role with the least rights uses it.
func TestATableMadeByHandNeedsFewRights(t *testing.T) {
	m := durable(t)
	query(t, m.URL(), `CREATE ROLE poor LOGIN`, `CREATE SCHEMA locks`, Schema("locks.Of us"), Schema("locks.Of us"),
		`GRANT USAGE ON SCHEMA locks TO poor`, `GRANT SELECT, INSERT, UPDATE, DELETE ON locks."Of us" TO poor`)
	s := opened(t, as(t, m.URL(), "poor", "", ""), WithTable("locks.Of us"))
	it := put(t, s, register.Item{Key: "k"}, "1")
	it = put(t, s, it, "2")
	remove(t, s, it)

	query(t, m.URL(), `REVOKE INSERT ON locks."Of us" FROM poor`)
	_, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: "k", Next: register.NewVersion()})
	if !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "GRANT") {
		t.Errorf("a swap that is not allowed: %v", err)
	}
	query(t, m.URL(), `DROP TABLE locks."Of us"`)
	if _, err = s.Read(within(t, 10*time.Second), "k"); !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "dropped") {
		t.Errorf("a table that is gone: %v", err)
	}
}

func TestManyMayMakeTheTableAtOnce(t *testing.T) {
	m := sharedServer(t)
	table := freshTable()
	errs := make(chan error, 12)
	for range cap(errs) {
		go func() {
			s, err := Open(within(t, 30*time.Second), m.URL(), WithTable(table), WithPolling())
			if err == nil {
				err = s.Close()
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// put swaps in a value and returns what stands there then.
func put(t testing.TB, s *Store, was register.Item, value string, notes ...register.Note) register.Item {
	t.Helper()
	w := register.Swap{Key: was.Key, Old: was.Version, Next: register.NewVersion(), Value: []byte(value), Notes: notes}
	it, err := s.Swap(within(t, 10*time.Second), w)
	if err != nil || it.Version != w.Next || string(it.Value) != value {
		t.Fatalf("swap: %+v, %v", it, err)
	}
	return it
}

func remove(t testing.TB, s *Store, was register.Item) {
	t.Helper()
	if it, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: was.Key, Old: was.Version}); err != nil || !it.Version.IsZero() {
		t.Fatalf("remove: %+v, %v", it, err)
	}
}

func read(t testing.TB, s *Store, key string) register.Item {
	t.Helper()
	it, err := s.Read(within(t, 10*time.Second), key)
	if err != nil {
		t.Fatal(err)
	}
	return it
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
