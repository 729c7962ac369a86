package postgres

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register/storekit"
	"github.com/turnwise/turnwise/internal/storecheck"
)

// impostor answers in a server's place, asks for the password in clear, and passes on what it is told. Without a certificate
// it says that it has no TLS.
func impostor(t *testing.T, cfg *tls.Config) (address string, told <-chan string) {
	t.Helper()
	talk, told := imposing(cfg)
	return storecheck.Serve(t, talk), told
}

func imposing(cfg *tls.Config) (talk func(c net.Conn), told <-chan string) {
	all := make(chan string, 100)
	listen := func(c net.Conn) {
		message := func(head int) []byte { // of so many bytes before the length
			b := make([]byte, head+4)
			if _, err := io.ReadFull(c, b); err != nil {
				return nil
			}
			size := binary.BigEndian.Uint32(b[head:])
			if size < 4 || size > 1<<16 {
				return nil
			}
			rest := make([]byte, size-4)
			if _, err := io.ReadFull(c, rest); err != nil {
				return nil
			}
			return rest
		}
		hello := message(0)
		if len(hello) == 4 { // it asks for TLS
			if cfg == nil {
				_, _ = c.Write([]byte("N"))
			} else {
				_, _ = c.Write([]byte("S"))
				c = tls.Server(c, cfg)
			}
			hello = message(0)
		}
		if hello == nil {
			return
		}
		_, _ = c.Write([]byte("R\x00\x00\x00\x08\x00\x00\x00\x03"))
		if secret := message(1); secret != nil {
			all <- strings.TrimRight(string(secret), "\x00")
		}
	}
	return listen, all
}

// openAt opens the store of a URL whose host is at an address.
func openAt(t *testing.T, url, address string, opts ...Option) error {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"192.0.2.1"}, nil }
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	c, err := configure(storekit.ToOpen, opts)
	if err != nil {
		t.Fatal(err)
	}
	s, err := open(ctx, cfg, c)
	if err == nil {
		s.Close()
		t.Fatal("the store is open")
	}
	return err
}

func TestAnImpostorGetsNoPassword(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	for _, c := range []struct {
		sslmode string
		tls     *tls.Config
		is      error
	}{
		{"", nil, coord.ErrInvalid}, {"disable", nil, coord.ErrInvalid}, {"prefer", web.TLS, coord.ErrInvalid}, {"allow", nil, coord.ErrInvalid},
		{"require", web.TLS, coord.ErrInvalid}, {"verify-full", web.TLS, driver.ErrDenied}, {"verify-ca", web.TLS, driver.ErrDenied},
	} {
		t.Run(c.sslmode, func(t *testing.T) {
			address, told := impostor(t, c.tls)
			url := "postgres://u:sesame@db.example/d"
			if c.sslmode != "" {
				url += "?sslmode=" + c.sslmode
			}
			err := openAt(t, url, address)
			storecheck.Refused(t, err, c.is, "db.example")
			storecheck.ToldNothing(t, told)
			if c.is != coord.ErrInvalid {
				return
			}
			var said strings.Builder
			err = openAt(t, url, address, WithCleartextPassword(), WithLogger(slog.New(slog.NewTextHandler(&said, nil))))
			if errors.Is(err, coord.ErrInvalid) || !strings.Contains(said.String(), "does not prove") {
				t.Errorf("where it is allowed: %v, and the log says %s", err, said.String())
			}
			storecheck.Told(t, told, "sesame")
		})
	}
}

// The password may come from elsewhere, the second host count too, and so does the address to listen at.
func TestNoWayOfAPasswordIsForgotten(t *testing.T) {
	t.Setenv("PGPASSWORD", "sesame")
	for _, url := range []string{"postgres://u@db.example/d", "postgres://u@127.0.0.1:1,db.example:5432/d?sslmode=disable", "host=db.example user=u"} {
		_, err := Open(within(t, 10*time.Second), url)
		storecheck.Refused(t, err, coord.ErrInvalid, "db.example")
	}
	m := sharedServer(t)
	_, err := Open(within(t, 20*time.Second), m.URL(), WithTable(freshTable()), WithListenURL("postgres://u@db.example/d"))
	storecheck.Refused(t, err, coord.ErrInvalid, "WithListenURL")
	for _, url := range []string{"postgres://u@127.0.0.1:1/d", "host=/nowhere user=u"} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := Open(ctx, url); !errors.Is(err, coord.ErrUnavailable) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// Without a host in the URL, and where there is no /var/run/postgresql, the library looks for a socket in /tmp.
func TestAnotherUserOfTheMachineGetsNoPassword(t *testing.T) {
	talk, told := imposing(nil)
	dir := storecheck.Squat(t, ".s.PGSQL.5432", talk)
	url := "postgres://u:sesame@/d?host=" + dir
	_, err := Open(within(t, 3*time.Second), url)
	storecheck.Refused(t, err, coord.ErrInvalid, "anybody on this machine")
	storecheck.ToldNothing(t, told)
	if s, err := Open(within(t, time.Second), url, WithCleartextPassword()); err == nil {
		s.Close()
		t.Error("the store is open")
	}
	storecheck.Told(t, told, "sesame")
}

// Which user listens at a port cannot be known, so on a machine with others a socket or TLS is better.
func TestWhoListensOnTheLoopbackInterfaceGetsThePassword(t *testing.T) {
	address, told := impostor(t, nil)
	if s, err := Open(within(t, time.Second), "postgres://u:sesame@"+address+"/d"); err == nil {
		s.Close()
		t.Error("the store is open")
	}
	storecheck.Told(t, told, "sesame")
}
