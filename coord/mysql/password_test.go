package mysql

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/storecheck"
)

// impostor answers in a server's place. It has the password encrypted with a key of its own, lets everybody in, asks for a
// file when the first statement comes, and passes on what it is told.
func impostor(t *testing.T, file string) (address string, passwords, files <-chan string) {
	t.Helper()
	talk, passwords, files := imposing(t, file)
	return storecheck.Serve(t, talk), passwords, files
}

func imposing(t *testing.T, file string) (talk func(c net.Conn), passwords, files <-chan string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	secrets, contents := make(chan string, 100), make(chan string, 100)
	const seed = "01234567890123456789"
	talk = func(c net.Conn) {
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		send := func(number byte, text string) {
			_, _ = c.Write(append([]byte{byte(len(text)), byte(len(text) >> 8), 0, number}, text...))
		}
		hear := func() (number byte, text string) {
			head := make([]byte, 4)
			if _, err := io.ReadFull(c, head); err != nil {
				return 0, ""
			}
			b := make([]byte, int(head[0])|int(head[1])<<8)
			if _, err := io.ReadFull(c, b); err != nil {
				return 0, ""
			}
			return head[3], string(b)
		}
		const plugin = "caching_sha2_password\x00"
		send(0, "\x0a8.0.36\x00\x01\x00\x00\x00"+seed[:8]+"\x00\x88\x82\x2d\x02\x00\x08\x00\x15"+strings.Repeat("\x00", 10)+seed[8:]+"\x00"+plugin)
		n, hello := hear()
		if hello == "" {
			return
		}
		send(n+1, "\x01\x04") // the whole password, please
		if n, text := hear(); text == "\x02" {
			send(n+1, "\x01"+string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})))
			n, text = hear()
			secret, err := rsa.DecryptOAEP(sha1.New(), nil, key, []byte(text), nil)
			if err != nil {
				return
			}
			for i := range secret {
				secret[i] ^= seed[i%len(seed)]
			}
			secrets <- strings.TrimRight(string(secret), "\x00")
			send(n+1, "\x00\x00\x00\x02\x00\x00\x00")
		} else if text != "" { // to a socket it goes as it is
			secrets <- strings.TrimRight(text, "\x00")
		}
		if n, text := hear(); text != "" && file != "" {
			send(n+1, "\xfb"+file)
			_, text = hear()
			contents <- text
		}
	}
	return talk, secrets, contents
}

func TestAnImpostorGetsNoPassword(t *testing.T) {
	address, told, _ := impostor(t, "")
	mysql.RegisterDialContext("elsewhere", func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	})
	const dsn = "u:sesame@elsewhere(db.example:3306)/d"
	_, err := Open(within(t, 3*time.Second), dsn)
	storecheck.Refused(t, err, coord.ErrInvalid, "db.example")
	storecheck.ToldNothing(t, told)
	var said strings.Builder
	s, err := Open(within(t, 3*time.Second), dsn, WithCleartextPassword(), WithLogger(slog.New(slog.NewTextHandler(&said, nil))))
	if err == nil {
		s.Close()
		t.Error("the store is open")
	}
	if !strings.Contains(said.String(), "does not prove") {
		t.Errorf("the log says %s", said.String())
	}
	storecheck.Told(t, told, "sesame")
	for _, other := range []string{"u:sesame@tcp(db.example)/d", "u:sesame@tcp(db.example)/d?tls=skip-verify", "u:sesame@tcp(db.example)/d?tls=preferred",
		"mysql://u:sesame@db.example/d", "mariadb://u:sesame@db.example/d?tls=skip-verify"} {
		_, err := Open(within(t, 3*time.Second), other)
		storecheck.Refused(t, err, coord.ErrInvalid, "db.example:3306")
	}
	for _, fine := range []string{"u:sesame@tcp(db.example)/d?tls=true", "u@tcp(db.example)/d", "u:sesame@unix(/run/socket)/d", "u:sesame@/d"} {
		cfg, err := parse(fine, logger(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := (&config{}).checkPassword(cfg); err != nil {
			t.Errorf("%s: %v", fine, err)
		}
	}
}

// A server may answer any statement by asking for a file.
func TestAnImpostorGetsNoFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "diary")
	if err := os.WriteFile(file, []byte("dear diary"), 0o600); err != nil {
		t.Fatal(err)
	}
	address, _, told := impostor(t, file)
	s, err := Open(within(t, 3*time.Second), "u:p@tcp("+address+")/d?allowAllFiles=true")
	if err == nil {
		s.Close()
		t.Error("the store is open")
	}
	select {
	case text := <-told:
		if text != "" {
			t.Errorf("it was told %q", text)
		}
	case <-time.After(10 * time.Second):
		t.Error("it asked for nothing")
	}
}

func TestAnotherUserOfTheMachineGetsNoPassword(t *testing.T) {
	talk, told, _ := imposing(t, "")
	dsn := "u:sesame@unix(" + storecheck.Squat(t, "mysqld.sock", talk) + "/mysqld.sock)/d"
	_, err := Open(within(t, 3*time.Second), dsn)
	storecheck.Refused(t, err, coord.ErrInvalid, "anybody on this machine")
	storecheck.ToldNothing(t, told)
	if s, err := Open(within(t, time.Second), dsn, WithCleartextPassword()); err == nil {
		s.Close()
		t.Error("the store is open")
	}
	storecheck.Told(t, told, "sesame")
}
