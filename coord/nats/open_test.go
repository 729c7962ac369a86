package nats

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// refused opens a store in vain. It must say why in one line, and tell no secret.
func refused(t *testing.T, is error, says, address string, opts ...Option) {
	t.Helper()
	s, err := Open(within(t, 3*time.Second), address, opts...)
	if err == nil {
		s.Close()
	}
	isRefusal(t, is, says, err)
}

// isRefusal checks what Open says that was to be in vain.
func isRefusal(t *testing.T, is error, says string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("it was opened; want an error that says %q", says)
		return
	}
	if !errors.Is(err, is) || !strings.Contains(err.Error(), says) {
		t.Errorf("%q does not say %q, or is not %q", err, says, is)
	}
	if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "sesame") {
		t.Errorf("%q is more than one line, or tells a secret", err)
	}
}

func TestWhatIsWrongWithAnAddress(t *testing.T) {
	for address, says := range map[string]string{
		"":                                 "is not host:port",
		"nats://":                          "is not host:port",
		"redis://127.0.0.1":                "nats://user:password@host:4222",
		"nats://127.0.0.1/0":               "nats://user:password@host:4222",
		"u:sesame@127.0.0.1":               "is a URL",
		"nats://u:sesame%zz@h":             "nats://user:password@host:4222",
		"nats://127.0.0.1,h:4222":          "of one server",
		"127.0.0.1:99999":                  "no port",
		"nats://u:sesame@example.com:4222": "in clear",
		"nats://sesame@example.com":        "in clear",
	} {
		refused(t, coord.ErrInvalid, says, address)
	}
	for _, o := range []Option{WithRoot(""), WithRoot("a.b"), WithRoot(strings.Repeat("a", 41)), WithMonitor("127.0.0.1:8222"), WithCredentials("/nowhere")} {
		refused(t, coord.ErrInvalid, "nats", "127.0.0.1:1", o)
	}
}

func TestConnectRefusesBeforeItDials(t *testing.T) {
	drivertest.RefusesBeforeItDials(t, func(ctx context.Context, address string, o coord.Option) (*coord.Client, error) {
		return Connect(ctx, "nats://"+address, WithClient(o))
	})
}

func TestAServerThatCannotBeUsedIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ line, says string }{
		"without JetStream": {"jetstream: disabled", "no JetStream"},
		"of a cluster":      {"cluster { name: c, listen: \"127.0.0.1:{port:route}\", routes: [\"nats://127.0.0.1:1\"] }", "one of a cluster"},
		"small messages":    {"max_payload: 100KB", "max_payload"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := servers.NATS(t, servers.Config(c.line)).Member(0)
			refused(t, driver.ErrDenied, c.says, m.URL())
		})
	}
}

func TestAServerThatWantsAPassword(t *testing.T) {
	m := servers.NATS(t, servers.Password("open sesame")).Member(0)
	opened(t, m)
	for _, address := range []string{m.Addr(), "nats://turnwise:sesame@" + m.Addr(), "nats://sesame@" + m.Addr()} {
		refused(t, driver.ErrDenied, "does not let us in", address)
	}
}

func TestTLS(t *testing.T) {
	c := servers.NATS(t, servers.TLS())
	refused(t, driver.ErrDenied, "not to be trusted", "tls://"+c.Addrs()[0])
	s, err := Open(within(t, 20*time.Second), c.Addrs()[0], WithTLS(c.TLSConfig()))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	d, err := New(within(t, 20*time.Second), natsgo.Options{Url: c.Addrs()[0], Secure: true, TLSConfig: c.TLSConfig(), TLSHandshakeFirst: true})
	if err != nil {
		t.Fatal("TLS comes first:", err)
	}
	_ = d.Close(t.Context())
	plain := servers.NATS(t, servers.Shared())
	refused(t, driver.ErrDenied, "TLS", "tls://"+plain.Addrs()[0], WithTLS(&tls.Config{RootCAs: x509.NewCertPool()}))
}

func TestAnAddressWithoutNATS(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("220 ready\r\n"))
			_ = conn.Close()
		}
	}()
	refused(t, coord.ErrUnavailable, "not NATS", l.Addr().String())
	refused(t, coord.ErrUnavailable, "refused", "127.0.0.1:1")
}

// The user's options stay as they are, and what they say about a new connection does not count.
func TestNewConnectsAsTheOptionsSay(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t).Member(0)
	o := natsgo.GetDefaultOptions()
	o.Url = m.URL()
	d, err := New(within(t, 20*time.Second), o, WithTTL(time.Second), WithLongestTTL(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	c := coord.NewClient(d)
	defer c.Close()
	lock := func() {
		t.Helper()
		if err := mutex.New(c, "a").Do(within(t, 30*time.Second), func(context.Context, *coord.Hold) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	lock()
	m.Restart(t)
	lock()
}

// The client library takes any of them, and each has lines of its own.
func TestNewTakesOneServer(t *testing.T) {
	t.Parallel()
	a, b := servers.NATS(t).Member(0), servers.NATS(t).Member(0)
	for _, servers := range [][]string{{a.URL(), b.URL()}, {b.URL()}} {
		o := natsgo.GetDefaultOptions()
		o.Url, o.Servers = a.URL(), servers
		d, err := New(within(t, 20*time.Second), o)
		if !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("%q: %v", servers, err)
		}
		if err == nil {
			d.Close(t.Context())
		}
	}
	o := natsgo.GetDefaultOptions()
	o.Url, o.Servers = "", []string{a.URL()}
	d, err := New(within(t, 20*time.Second), o)
	if err != nil {
		t.Fatal(err)
	}
	d.Close(t.Context())
}

// Who has no monitor takes a restart for the end of the memory. (He ended that of those who have one. And who had one shut out those who have
// none, when he came first after a restart.)
func TestWhoHasNoMonitorDoesNotEndTheMemoryOfThoseWhoHaveOne(t *testing.T) {
	t.Parallel()
	for name, has := range map[string]bool{"one without beside those with": true, "one with beside those without": false} {
		t.Run(name, func(t *testing.T) {
			m := servers.NATS(t, servers.Fsync()).Member(0)
			opts := map[bool][]Option{true: {WithMonitor(monitor(m))}}
			s := opened(t, m, opts[has]...)
			was, err := s.Memory(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			refused(t, driver.ErrDenied, "say it everywhere or nowhere", m.URL(), opts[!has]...)
			m.Restart(t)
			refused(t, driver.ErrDenied, "say it everywhere or nowhere", m.URL(), opts[!has]...)
			if now, err := s.Memory(within(t, 20*time.Second)); err != nil || has && now.ID != was.ID {
				t.Errorf("the memory was %v, and is %v, %v", was.ID, now.ID, err)
			}
		})
	}
}

func TestAMonitorMustShowWhatIsPromised(t *testing.T) {
	t.Parallel()
	always, lazy := servers.NATS(t, servers.Fsync()).Member(0), servers.NATS(t, servers.Shared()).Member(0)
	opened(t, always, WithMonitor(monitor(always)))
	refused(t, driver.ErrDenied, "sync_interval: always", lazy.URL(), WithMonitor(monitor(lazy)))
	refused(t, coord.ErrUnavailable, "the monitor is of the server", lazy.URL(), WithMonitor(monitor(always)))
	refused(t, coord.ErrUnavailable, "ask the monitor", always.URL(), WithMonitor("http://127.0.0.1:1"))
	refused(t, coord.ErrUnavailable, "monitor", always.URL(), WithMonitor(monitor(always)+"/nothing"))
	refused(t, driver.ErrDenied, "say WithMonitor", always.URL())
	elsewhere := httptest.NewServer(http.RedirectHandler(monitor(always)+"/varz", http.StatusFound))
	defer elsewhere.Close()
	refused(t, coord.ErrUnavailable, "302 Found", always.URL(), WithMonitor(elsewhere.URL))
	_, err := Connect(within(t, 10*time.Second), lazy.URL(), WithClient(coord.Require(coord.Strength{Restart: coord.Remembers})))
	if !errors.Is(err, coord.ErrTooWeak) {
		t.Errorf("who must not forget gets a server that may: %v", err)
	}
}

// What comes after such an answer is the bare connection, and no ctx ends a read of it.
func TestAMonitorThatChangesToAnotherProtocolHoldsUpNobody(t *testing.T) {
	monitor := storecheck.Serve(t, func(c net.Conn) {
		c.Read(make([]byte, 4096)) // what it is asked
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
		io.Copy(io.Discard, c)
	})
	address := speaks(t, func(subject string, _ []byte, say func(string)) { sayOfNothing(subject, say) })
	refusal := make(chan error, 1)
	go func() {
		s, err := Open(within(t, 3*time.Second), address, WithMonitor("http://"+monitor))
		if err == nil {
			s.Close()
		}
		refusal <- err
	}()
	select {
	case err := <-refusal:
		isRefusal(t, coord.ErrUnavailable, "is that the monitoring port", err)
	case <-time.After(45 * time.Second):
		t.Error("it was to be opened within three seconds, and whoever asked still waits")
	}
}

func TestAServerThatLiesTakesLittleMemory(t *testing.T) {
	const info = `INFO {"server_id":"N","version":"2.15.2","proto":1,"max_payload":1048576,"headers":true,"jetstream":true,"api_lvl":5}` + "\r\nPONG\r\n"
	// What the library takes for the beginning of a message, and who counts bytes otherwise for the inside of one.
	hidden := "MSG turnwise.told.x 1 1000000000\r\nab" + strings.Repeat("x", 80)
	for name, says := range map[string]string{
		"a message of eight gigabytes":     info + "MSG turnwise.told.x 1 8589934592\r\n",
		"with headers of that size":        info + "HMSG turnwise.told.x 1 8589934591 8589934592\r\n",
		"a message of less than nothing":   info + "MSG turnwise.told.x 1 -5\r\n",
		"a length that is no number":       info + "MSG turnwise.told.x 1 many\r\n",
		"a message for nobody":             info + "MSG a 77 2\r\nab\r\n",
		"more headers than message":        info + "HMSG turnwise.told.x 1 900 2\r\nab\r\n",
		"what is no verb":                  info + "NONSENSE\r\n",
		"a greeting that makes no sense":   "INFO {\r\n",
		"a greeting that does not end":     "INFO {" + strings.Repeat(" ", 8<<20),
		"a line that does not end":         info + "MSG " + strings.Repeat("x", 8<<20),
		"TLS that nobody asked for":        info + "\x16\x03\x01",
		"a length after a line's end":      info + "MSG turnwise.told.x 1 1000000000\r 5\nab",
		"a message in the end of another":  info + "MSG turnwise.told.x 1 0\r\nxyMSG a 1 80\r\n" + hidden,
		"a message that an error takes in": info + "-ERR \nMSG a 1 80\r\n" + hidden,
		"a message that a greeting takes":  info + "INFO \nMSG a 1 80\r\n" + hidden,
		"pongs without end":                info + strings.Repeat("PONG\r\n", 100_000),
		"a greeting after another, large":  info + "INFO {" + strings.Repeat(" ", 8<<20),
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			text := []byte(says) // once: what this end takes is counted, too
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer conn.Close()
						_, _ = conn.Write(text)
						time.Sleep(200 * time.Millisecond)
					}()
				}
			}()
			before := allocated()
			s, err := Open(within(t, 300*time.Millisecond), l.Addr().String())
			if err == nil {
				s.Close()
				t.Error("it was opened")
			}
			if grown := allocated() - before; grown > 256<<20 {
				t.Errorf("it took %d MB", grown>>20)
			}
			if !errors.Is(err, coord.ErrUnavailable) {
				t.Errorf("%v", err)
			}
		})
	}
}

// Open tries whether it may delete streams, and a stream of any name may be somebody's.
func TestOpenDeletesNoStreamOfOthers(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t).Member(0)
	other := opened(t, m, WithRoot("shop-none"))
	it := put(t, other, "k", "x")
	js := jetStream(t, m)
	if _, err := js.AddStream(&natsgo.StreamConfig{Name: "bills-none", Subjects: []string{"bills"}}); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{"shop", "bills"} {
		opened(t, m, WithRoot(root))
	}
	if got, err := other.Read(within(t, 10*time.Second), "k"); err != nil || got.Version != it.Version {
		t.Errorf("there is %v, %v", got, err)
	}
	if _, err := js.StreamInfo("bills-none"); err != nil {
		t.Errorf("a stream that is not turnwise's: %v", err)
	}
	// A name that Open may try is one that the server gives to no stream.
	if _, err := operator(t, m).Request("$JS.API.STREAM.CREATE.shop/none", []byte(`{"name":"shop/none","subjects":["shop"]}`), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	for name := range js.StreamNames() {
		if strings.Contains(name, "/") {
			t.Errorf("the server has the stream %q", name)
		}
	}
}

// The client library's errors have what it could not read, with the password.
func TestNewTellsNoPassword(t *testing.T) {
	for _, address := range []string{"nats://u:open%sesame@127.0.0.1:1", "nats://u:open sesame@127.0.0.1:1", "nats://u:sesame@127.0.0.1:port",
		"nats://u:sesame#open@127.0.0.1:1", "u:open%sesame@127.0.0.1:1"} {
		for what, o := range map[string]natsgo.Options{"url": {Url: address}, "servers": {Servers: []string{address}}} {
			var log strings.Builder
			d, err := New(within(t, 300*time.Millisecond), o, WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
			if err == nil {
				d.Close(t.Context())
			}
			isRefusal(t, coord.ErrInvalid, "no URL", err)
			if strings.Contains(log.String(), "sesame") {
				t.Errorf("%s %s: the log has %s", what, address, log.String())
			}
		}
	}
}
