package etcd

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestConnectGivesAClientThatLocks(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	cfg := clientv3.Config{Endpoints: cluster.Addrs()}
	c, err := Connect(within(t, 10*time.Second), cfg, WithTTL(5*time.Second), WithClient(coord.WithOwnerLabel("tests")))
	if err != nil {
		t.Fatal(err)
	}
	h, err := mutex.New(c, "connected").Lock(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if nodes, err := c.Line(within(t, 10*time.Second), "connected"); err != nil || len(nodes) != 1 || !nodes[0].Holds || nodes[0].Owner.Label != "tests" {
		t.Errorf("the line is %+v, %v", nodes, err)
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("the second close: %v", err)
	}
}

const nobody = "127.0.0.1:1"

func TestConnectToNobodySaysSoInTime(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	for _, cfg := range []clientv3.Config{
		{Endpoints: []string{nobody}},
		{Endpoints: []string{mute.Addr().String()}},
		{Endpoints: []string{nobody}, Username: "u", Password: "p"},
		{Endpoints: []string{mute.Addr().String()}, Username: "u", Password: "p"},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		begun := time.Now()
		_, err := Connect(ctx, cfg)
		cancel()
		if !errors.Is(err, coord.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), cfg.Endpoints[0]) {
			t.Errorf("connect: %v", err)
		}
		if took := time.Since(begun); took > 400*time.Millisecond+raceSlack {
			t.Errorf("it came back after %v", took)
		}
	}
}

// A user who mixes up a port, a name or a certificate is told what is in the way, and a logger hears of it meanwhile.
func TestConnectNamesTheCause(t *testing.T) {
	plain, secure := servers.Etcd(t, servers.Shared()), servers.Etcd(t, servers.Shared(), servers.TLS())
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	anyCertificate := &tls.Config{InsecureSkipVerify: true}
	var all sync.WaitGroup
	for name, c := range map[string]struct {
		at   string
		tls  *tls.Config
		says string
	}{
		"nobody there":                        {nobody, nil, "connection refused"},
		"no such name":                        {"no-such-host.invalid:2379", nil, "no-such-host.invalid"},
		"TLS, and the service speaks plain":   {plain.Addrs()[0], anyCertificate, "it does not speak TLS"},
		"plain, and the service speaks TLS":   {secure.Addrs()[0], nil, "TLS, which the client's Config does not ask for"},
		"no certificate":                      {secure.Addrs()[0], anyCertificate, "wants a certificate"},
		"a certificate of an unknown service": {secure.Addrs()[0], &tls.Config{}, "unknown authority"},
		"another protocol":                    {web.Listener.Addr().String(), nil, "HTTP/1.1"},
	} {
		for _, user := range []string{"", "somebody"} {
			all.Go(func() {
				var said lockedBuffer
				cfg := clientv3.Config{Endpoints: []string{c.at}, TLS: c.tls, Username: user, Password: user}
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // all at once, on a busy machine
				defer cancel()
				_, err := Connect(ctx, cfg, WithLogger(slog.New(slog.NewTextHandler(&said, nil))), WithCleartextPassword())
				if !errors.Is(err, coord.ErrUnavailable) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.at) {
					t.Errorf("%s, user %q: %v; want %q", name, user, err, c.says)
				}
				if log := said.String(); !strings.Contains(log, "level=WARN") || !strings.Contains(log, c.at) {
					t.Errorf("%s, user %q: the log says %q", name, user, log)
				}
			})
		}
	}
	all.Wait()
}

// With the user's own client, a session that cannot be opened also says why.
func TestOpenNamesTheCause(t *testing.T) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{nobody}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	d, err := New(client)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(within(t, 3*time.Second)); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("open: %v", err)
	}
	if err := d.Close(within(t, 10*time.Second)); err != nil {
		t.Error(err)
	}
}

// lockedBuffer is for a log that is written while a test reads it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// If nobody says for how long, Connect does not try forever.
func TestConnectWithoutADeadlineEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	t.Parallel()
	begun := time.Now()
	_, err := Connect(context.Background(), clientv3.Config{Endpoints: []string{"127.0.0.1:1"}, Username: "u", Password: "p"})
	if !errors.Is(err, coord.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("connect: %v", err)
	}
	if took := time.Since(begun); took < driverkit.ConnectFor-time.Second || took > driverkit.ConnectFor+10*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestNewLeavesTheClientOpen(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	client := direct(t, cluster)
	d, err := New(client)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.Close(within(t, 10*time.Second)); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := d.Open(within(t, 10*time.Second)); err == nil {
		t.Error("a session was opened after the close")
	}
	if _, err := client.Get(within(t, 10*time.Second), "x"); err != nil {
		t.Errorf("the client was closed: %v", err)
	}
}

func TestMisuseIsRefused(t *testing.T) {
	cluster := servers.Etcd(t, servers.Shared())
	client, namespaced := direct(t, cluster), direct(t, cluster)
	namespaced.KV = namespace.NewKV(namespaced.KV, "mine/")
	for _, bad := range []struct {
		client *clientv3.Client
		opts   []Option
		says   string
	}{
		{nil, nil, "needs a client"},
		{clientv3.NewCtxClient(context.Background()), nil, "no connection"},
		{namespaced, nil, "WithRoot"},
		{client, []Option{WithRoot("")}, "WithRoot"},
		{client, []Option{WithRoot("a//b")}, "WithRoot"},
		{client, []Option{WithRoot("a\x00")}, "WithRoot"},
		{client, []Option{WithNames(7)}, "WithNames"},
		{client, []Option{WithClient(coord.Require(driver.Strength{Death: driver.ByKernel}))}, "WithClient is for Connect"},
	} {
		if _, err := New(bad.client, bad.opts...); err == nil || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("want an error that says %q: %v", bad.says, err)
		}
	}
	if _, err := Connect(t.Context(), clientv3.Config{}); err == nil {
		t.Error("connected without endpoints")
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Connect(ended, clientv3.Config{Endpoints: cluster.Addrs()}); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

func TestWhereAPasswordMayGo(t *testing.T) {
	secret := new(tls.Config)
	for _, c := range []struct {
		cfg   clientv3.Config
		clear string
	}{
		{clientv3.Config{Endpoints: []string{"etcd1:2379"}}, ""},
		{clientv3.Config{Endpoints: []string{"etcd1:2379"}, Password: "p"}, "etcd1:2379"},
		{clientv3.Config{Endpoints: []string{"etcd1:2379"}, Token: "t"}, "etcd1:2379"},
		{clientv3.Config{Endpoints: []string{"127.0.0.1:2379", "http://[::1]:2379", "127.8.9.1:1", "unix:///run/etcd"}, Password: "p"}, ""},
		{clientv3.Config{Endpoints: []string{"unix:@etcd"}, Password: "p"}, "@etcd, where anybody"},
		{clientv3.Config{Endpoints: []string{"unix:///nowhere/../tmp/etcd"}, Password: "p"}, "/tmp/etcd, where anybody"},
		{clientv3.Config{Endpoints: []string{"127.0.0.1:2379", "http://10.0.0.1:2379"}, Password: "p"}, "10.0.0.1:2379, in clear"},
		{clientv3.Config{Endpoints: []string{"localhost.example:2379"}, Password: "p"}, "localhost.example:2379"},
		{clientv3.Config{Endpoints: []string{"dns:///localhost"}, Password: "p"}, "dns:///localhost"},
		{clientv3.Config{Endpoints: []string{"https://etcd1:2379"}, Password: "p"}, ""},
		{clientv3.Config{Endpoints: []string{"etcd1:2379"}, Password: "p", TLS: secret}, ""},
		{clientv3.Config{Endpoints: []string{"HTTP://etcd1:2379", "https://etcd2:2379"}, Password: "p", TLS: secret}, "etcd1:2379, in clear"},
		{clientv3.Config{Endpoints: []string{"etcd1:2379"}, Password: "p", TLS: &tls.Config{InsecureSkipVerify: true}}, "etcd1:2379, whoever answers"},
	} {
		err := (&config{log: slog.New(slog.DiscardHandler)}).checkPassword(c.cfg)
		if (err != nil) != (c.clear != "") || err != nil && !strings.Contains(err.Error(), "would go to "+c.clear) {
			t.Errorf("%v, TLS %t: %v", c.cfg.Endpoints, c.cfg.TLS != nil, err)
		}
	}
	_, err := Connect(within(t, 10*time.Second), clientv3.Config{Endpoints: []string{"etcd1:2379"}, Username: "u", Password: "p"})
	if err == nil || !strings.Contains(err.Error(), "etcd1:2379, in clear") {
		t.Errorf("connect: %v", err)
	}
	soon, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err = Connect(soon, clientv3.Config{Endpoints: []string{"192.0.2.1:2379"}, Username: "u", Password: "p"}, WithCleartextPassword())
	if !errors.Is(err, coord.ErrUnavailable) {
		t.Errorf("connect all the same: %v", err)
	}
}

func TestConnectRefusesBeforeItDials(t *testing.T) {
	drivertest.RefusesBeforeItDials(t, func(ctx context.Context, address string, o coord.Option) (*coord.Client, error) {
		return Connect(ctx, clientv3.Config{Endpoints: []string{address}}, WithClient(o))
	})
}

func TestConnectSaysWhatIsPromised(t *testing.T) {
	_, err := Connect(t.Context(), clientv3.Config{Endpoints: []string{"127.0.0.1:1"}}, WithClient(coord.Require(driver.Strength{Death: driver.ByKernel})))
	if want := "turnwise: etcd: connect: the service promises too little: asked for: a death is noticed by the kernel; " +
		"promised: a death is noticed by a TTL"; !errors.Is(err, coord.ErrTooWeak) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// A program that dials by itself may name its endpoints as it likes.
func TestAnEndpointForADialerMayBeAnyName(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	dialed := make(chan string, 1)
	dial := grpc.WithContextDialer(func(_ context.Context, addr string) (net.Conn, error) {
		select {
		case dialed <- addr:
			cancel()
		default:
		}
		return nil, errors.New("nobody is there")
	})
	_, err := Connect(ctx, clientv3.Config{Endpoints: []string{"beside-me"}, DialOptions: []grpc.DialOption{dial}})
	select {
	case addr := <-dialed:
		if addr != "beside-me" {
			t.Errorf("%q was dialed", addr)
		}
	default:
		t.Errorf("nothing was dialed: %v", err)
	}
}
