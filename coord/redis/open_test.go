package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

// refused opens a store in vain and returns why, which is one line.
func refused(t *testing.T, d time.Duration, address string, opts ...Option) error {
	t.Helper()
	begun := time.Now()
	s, err := Open(redistest.Within(t, d), address, opts...)
	if err == nil {
		s.Close()
		t.Fatalf("%s was opened", address)
	}
	if took := time.Since(begun); took > d+2*time.Second {
		t.Errorf("it took %v", took)
	}
	if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "sesame") {
		t.Errorf("%q is more than one line, or tells a secret", err)
	}
	t.Log(err)
	return err
}

func wants(t *testing.T, err error, says string, is error) {
	t.Helper()
	if !strings.Contains(err.Error(), says) || !errors.Is(err, is) {
		t.Errorf("%q does not say %q, or is not %q", err, says, is)
	}
}

func TestAServerThatMayForgetSilentlyIsRefused(t *testing.T) {
	cluster := servers.Redis(t, servers.Members(2))
	address, other := cluster.Addrs()[0], cluster.Addrs()[1]
	for _, limit := range []string{"100mb", "0"} { // it may be set later
		redistest.CLI(t, address, "CONFIG", "SET", "maxmemory", limit)
		for _, policy := range []string{"allkeys-lru", "allkeys-random"} {
			redistest.CLI(t, address, "CONFIG", "SET", "maxmemory-policy", policy)
			wants(t, refused(t, 20*time.Second, address), "CONFIG SET maxmemory-policy noeviction", driver.ErrDenied)
		}
	}
	redistest.CLI(t, address, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	open1(t, address)
	follow(t, other, address)
	wants(t, refused(t, 20*time.Second, other), "replica of 127.0.0.1", driver.ErrDenied)

	// A master that writes without its replicas may be replaced without knowing it. This is logged but not refused: it may be
	// intended.
	for _, least := range []string{"0", "1"} {
		redistest.CLI(t, address, "CONFIG", "SET", "min-replicas-to-write", least)
		var log strings.Builder
		open1(t, address, WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Close()
		if warned := strings.Contains(log.String(), "min-replicas-to-write"); warned != (least == "0") {
			t.Errorf("min-replicas-to-write %s: %s", least, log.String())
		}
	}
}

// An operator learns from the log whether a restart ends all holds, without trying it.
func TestWhatARestartTakesAwayIsLogged(t *testing.T) {
	address := servers.Redis(t, servers.AppendOnly("always")).Addrs()[0]
	for _, fsync := range []string{"always", "everysec"} {
		redistest.CLI(t, address, "CONFIG", "SET", "appendfsync", fsync)
		var log strings.Builder
		open1(t, address, WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Close()
		if said := strings.Contains(log.String(), "a restart of the server may take away"); said != (fsync == "everysec") {
			t.Errorf("appendfsync %s: it logs %q", fsync, log.String())
		}
	}
}

// Such a policy throws away only keys that expire, and ours do not.
func TestRegistersAreNotThrownAwayWhenMemoryIsShort(t *testing.T) {
	cluster := servers.Redis(t, servers.Config("maxmemory 4mb", "maxmemory-policy volatile-lru"))
	s := open1(t, cluster.Addrs()[0])
	redistest.Put(t, s, "a", "one")
	value := []byte(strings.Repeat("x", 100_000))
	full := false
	for i := range 200 {
		_, err := s.Swap(t.Context(), register.Swap{Key: fmt.Sprint("big/", i), Next: register.NewVersion(), Value: value})
		if full = err != nil; full {
			if !strings.Contains(err.Error(), "OOM") || errors.Is(err, driver.ErrDenied) {
				t.Error(err)
			}
			break
		}
	}
	if !full {
		t.Fatal("memory was not short")
	}
	if it := redistest.Read(t, s, "a"); string(it.Value) != "one" {
		t.Errorf("it holds %v", it)
	}
}

// altered returns the address of a server whose requests and answers are changed on the way, each to something of the same
// length.
func altered(t *testing.T, target string, changes ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	change := strings.NewReplacer(changes...)
	forward := func(to, from net.Conn) {
		defer to.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			if _, err := change.WriteString(to, string(buffer[:n])); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", target)
			if err != nil {
				in.Close()
				continue
			}
			go forward(out, in)
			go forward(in, out)
		}
	}()
	return l.Addr().String()
}

// Before 6.2 there is no CLIENT INFO either.
func TestAnOlderRedisIsRefused(t *testing.T) {
	address := servers.Redis(t, servers.Shared()).Addrs()[0]
	open1(t, altered(t, address))
	major := strings.Split(strings.Split(redistest.CLI(t, address, "INFO", "server"), "redis_version:")[1], ".")[0]
	old := altered(t, address, "redis_version:"+major, "redis_version:5", "CLIENT\r\n$4\r\nINFO", "CLIENT\r\n$4\r\nNONE")
	wants(t, refused(t, 20*time.Second, old), "it takes 6.2 or newer, or Valkey", driver.ErrDenied)
}

func TestAClusterIsRefused(t *testing.T) {
	cluster := servers.Redis(t, servers.Config("cluster-enabled yes"))
	wants(t, refused(t, 20*time.Second, cluster.Addrs()[0]), "part of a cluster", driver.ErrDenied)
}

func TestAWrongPasswordIsRefused(t *testing.T) {
	cluster := servers.Redis(t, servers.Password("open sesame"))
	address := cluster.Addrs()[0]
	wants(t, refused(t, 20*time.Second, address), "it wants a password", driver.ErrDenied)
	wants(t, refused(t, 20*time.Second, "redis://:sesame@"+address), "the password is wrong", driver.ErrDenied)
	open1(t, cluster.Member(0).URL())
	none := servers.Redis(t, servers.Shared()).Addrs()[0]
	wants(t, refused(t, 20*time.Second, "redis://"+none+"/99"), "no database of that number", driver.ErrMissing)
}

func TestAUserNeedsTheDocumentedRights(t *testing.T) {
	cluster := servers.Redis(t)
	address := cluster.Addrs()[0]
	acl := func(rules string) {
		redistest.CLI(t, address, append([]string{"ACL", "SETUSER", "u", "reset", "on", ">sesame"}, strings.Fields(rules)...)...)
	}
	acl(redistest.Rights)
	s := open1(t, "redis://u:sesame@"+address)
	h, _ := redistest.Listen(t, s, "a")
	redistest.Put(t, s, "a", "one", register.Note{Topic: "a", Text: []byte("x")})
	h.Await(t, "x")
	for _, right := range strings.Fields(redistest.Rights) {
		if strings.HasPrefix(right, "+") {
			t.Run("without "+right, func(t *testing.T) {
				acl(strings.Replace(redistest.Rights+" ", right+" ", "", 1))
				s, err := Open(redistest.Within(t, 20*time.Second), "redis://u:sesame@"+address)
				if err == nil {
					defer s.Close()
					_, err = s.Listen(redistest.Within(t, 20*time.Second), "a", func([]byte) {})
				}
				if (right == "+unsubscribe" || right == "+config|get") && err == nil { // it works without these
					return
				}
				if !errors.Is(err, driver.ErrDenied) {
					t.Fatalf("%v", err)
				}
				t.Log(err)
			})
		}
	}
	acl(strings.Replace(redistest.Rights, "~turnwise*", "~other*", 1))
	wants(t, refused(t, 20*time.Second, "redis://u:sesame@"+address), "Rights", driver.ErrDenied)
	acl(strings.Replace(redistest.Rights, "&turnwise*", "", 1))
	wants(t, refused(t, 20*time.Second, "redis://u:sesame@"+address), "Rights", driver.ErrDenied)
}

func TestAnAddressWithoutRedis(t *testing.T) {
	// Nobody there.
	nobody := refused(t, 500*time.Millisecond, "127.0.0.1:1")
	wants(t, nobody, "refused", context.DeadlineExceeded)

	// One who hangs up, as a server does that wants TLS.
	const hint = "it hangs up, as a server may that speaks TLS"
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
			_, _ = c.Read(make([]byte, 1)) // so that it is no reset
			_ = c.(*net.TCPConn).CloseWrite()
			defer c.Close()
		}
	}()
	wants(t, refused(t, 500*time.Millisecond, l.Addr().String()), hint, context.DeadlineExceeded)
	if strings.Contains(nobody.Error(), hint) {
		t.Errorf("one who is not there %v", nobody)
	}

	// Something else.
	if err := refused(t, 5*time.Second, storecheck.Saying(t, "HTTP/1.1 400 Bad Request\r\n\r\n")); !strings.Contains(err.Error(), "not Redis") {
		t.Error("it does not say that it is not Redis")
	}
	wants(t, refused(t, 500*time.Millisecond, storecheck.Saying(t, "")), "", context.DeadlineExceeded)
	redis := servers.Redis(t, servers.Shared()).Addrs()[0]
	if err := refused(t, 5*time.Second, "rediss://"+redis); !strings.Contains(err.Error(), "(redis://)") {
		t.Error("it does not say that there is no TLS")
	}
}

func TestWhatIsNoAddress(t *testing.T) {
	for _, address := range []string{"", "localhost", "redis://u:sesame@host:port/x", "http://host:1", "redis://host/1/2",
		"sesame@127.0.0.1:1", "u:sesame@127.0.0.1:1"} {
		wants(t, refused(t, time.Second, address), "URL", coord.ErrInvalid)
	}
	wants(t, refused(t, time.Second, "redis://:sesame@redis.example.com:6379"), "in clear", coord.ErrInvalid)
	wants(t, refused(t, time.Second, "redis://:sesame@redis.example.com:6379", WithTLS(&tls.Config{InsecureSkipVerify: true})), "whoever answers", coord.ErrInvalid)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Open(ctx, "127.0.0.1:1"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestTheCallersClientDoes(t *testing.T) {
	address := servers.Redis(t, servers.Shared()).Addrs()[0]
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, err := server.Configure(storekit.ToNew, defaultRoot, []Option{WithRoot(t.Name())})
	if err != nil {
		t.Fatal(err)
	}
	s, err := openOn(t.Context(), client, c)
	if err != nil {
		t.Fatal(err)
	}
	h, _ := redistest.Listen(t, s, "a")
	redistest.Put(t, s, "a", "one", register.Note{Topic: "a", Text: []byte("x")})
	h.Await(t, "x")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Read(t.Context(), "a"); err == nil {
		t.Error("a closed store was read")
	}
	if err := client.Do(t.Context(), client.B().Ping().Build()).Error(); err != nil {
		t.Errorf("the caller's client was closed: %v", err)
	}
}

func TestACertificateThatIsNotToBeTrustedIsSaidAtOnce(t *testing.T) {
	stranger := httptest.NewTLSServer(nil)
	defer stranger.Close()
	begun := time.Now()
	_, err := Open(redistest.Within(t, 20*time.Second), "rediss://"+stranger.Listener.Addr().String())
	if !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "TLS certificate") {
		t.Errorf("open: %v", err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it came back after %v", took)
	}
}

func TestConnectRefusesBeforeItDials(t *testing.T) {
	drivertest.RefusesBeforeItDials(t, func(ctx context.Context, address string, o coord.Option) (*coord.Client, error) {
		return Connect(ctx, address, WithClient(o))
	})
}
