package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Open returns a store in the Redis or Valkey at an address: host:port, or a URL as in
//
//	redis://user:password@host:6379/0
//	rediss://host:6379                                          over TLS
//	unix:///run/redis/redis.sock
//	redis://sentinel:26379?addr=other:26379&master_set=orders   the master that sentinels name
//
// Open checks that the server can do all that is needed, and that the user may. While the server is out of reach it keeps
// trying, until ctx ends or, if ctx has no deadline, for 30 s. ctx governs no more than that. Close ends the connections.
//
// A password is sent as it is. So without TLS it is refused unless the address is on this machine; see
// [WithCleartextPassword].
func Open(ctx context.Context, address string, opts ...Option) (*Store, error) {
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	option, name, err := dialOption(address, c)
	if err != nil {
		return nil, err
	}
	var s *Store
	if err := pkg.Open(ctx, name, c.Log, func(ctx context.Context) (err error) {
		s, err = open(ctx, option, c)
		return atOpening(err)
	}); err != nil {
		return nil, err
	}
	return s, nil
}

var errClear = errors.New("the password would go there in clear: use rediss://, or WithCleartextPassword if nobody can listen on the way")

func open(ctx context.Context, option rueidis.ClientOption, c config) (*Store, error) {
	var reached atomic.Bool
	client, cut, err := dial(ctx, option, &reached)
	if err != nil {
		return nil, explain(err)
	}
	s := newStore(client, c)
	s.cut, s.release = cut, client.Close
	if err := s.check(ctx); err != nil {
		s.Close()
		if errors.Is(err, ctx.Err()) && reached.Load() {
			tls := "it does not speak TLS (redis://)"
			if option.TLSConfig == nil {
				tls = "it speaks TLS (rediss://)"
			}
			err = fmt.Errorf("a connection is accepted and nothing answers: the server is frozen, or %s: %w", tls, err)
		}
		return nil, err
	}
	return s, nil
}

// openOn opens a store on the caller's client.
func openOn(ctx context.Context, client rueidis.Client, opts ...Option) (*Store, error) {
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	s := newStore(client, c)
	if client.Mode() == rueidis.ClientModeCluster {
		err = errCluster
	} else {
		err = s.check(ctx)
	}
	if err != nil {
		go s.Close() // the library may still be connecting
		return nil, fmt.Errorf("turnwise: redis: open: %w", err)
	}
	return s, nil
}

func newStore(client rueidis.Client, c config) *Store {
	return &Store{
		config:  c,
		known:   storekit.NewKnown[*memory](),
		mark:    strings.TrimSuffix(c.root, ":") + ".memory",
		index:   strings.TrimSuffix(c.root, ":") + ".keys",
		conn:    newConnection(client, rueidis.PubSubHooks{}),
		ears:    newEars(client, c.Log),
		cut:     func() {},
		release: func() {},
	}
}

// check finds out whether the server can and may do all that is needed, and what it remembers.
func (s *Store) check(ctx context.Context) error {
	if err := s.inspect(ctx); err != nil {
		return err
	}
	if _, err := s.remember(ctx); err != nil {
		return err
	}
	return s.rehearse(ctx)
}

// dialOption returns how to reach an address, and the address without secrets.
func dialOption(address string, c config) (option rueidis.ClientOption, name string, err error) {
	if !strings.Contains(address, "://") {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return option, "", pkg.Invalid("%q is neither host:port nor a URL such as redis://host:6379/0", address)
		}
		option.InitAddress = []string{address}
	} else if option, err = rueidis.ParseURL(address); err != nil {
		scheme, _, _ := strings.Cut(address, "://") // the rest may hold a password, and so may the error
		return option, "", pkg.Invalid("the URL %q is not one of the kind redis://user:password@host:6379/0, "+
			"rediss://… or unix:///…", scheme+"://…")
	}
	if c.tls != nil {
		option.TLSConfig = c.tls
	}
	if option.Password != "" && option.TLSConfig == nil && !c.cleartext {
		for _, a := range option.InitAddress {
			if !strings.HasPrefix(a, "/") && !driverkit.OnThisMachine(a) {
				return option, "", pkg.Invalid("open %s: %w", a, errClear)
			}
		}
	}
	option.DisableCache, option.DisableRetry = true, true
	option.ForceSingleClient = option.Sentinel.MasterSet == ""
	option.PipelineMultiplex = -1
	option.ReadBufferEachConn, option.WriteBufferEachConn = 64<<10, 64<<10
	if option.Dialer.Timeout == 0 {
		option.Dialer.Timeout = 3 * time.Second
	}
	if option.ConnWriteTimeout == 0 {
		option.ConnWriteTimeout = 5 * time.Second
	}
	if option.Sentinel.MasterSet != "" {
		option.Sentinel.TopologyRefreshInterval = 5 * time.Second
	}
	return option, strings.Join(option.InitAddress, ","), nil
}

// dial makes a client whose connections all end with cut. reached is set when an address accepts a connection.
func dial(ctx context.Context, option rueidis.ClientOption, reached *atomic.Bool) (client rueidis.Client, cut func(), err error) {
	life, end := context.WithCancel(context.Background())
	unix := strings.HasPrefix(option.InitAddress[0], "/")
	// The library connects at once, without a ctx, and we do not use that connection. With sentinels it asks them.
	idle := new(atomic.Bool)
	idle.Store(option.ForceSingleClient)
	option.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, cfg *tls.Config) (net.Conn, error) {
		if idle.Load() {
			return nil, errIdle
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		network := "tcp"
		if unix {
			network = "unix"
		}
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		reached.Store(true)
		if cfg != nil {
			if cfg.ServerName == "" {
				cfg = cfg.Clone()
				cfg.ServerName, _, _ = net.SplitHostPort(address)
			}
			secure := tls.Client(conn, cfg)
			if err := secure.HandshakeContext(ctx); err != nil {
				conn.Close()
				return nil, err
			}
			conn = secure
		}
		return &mortal{conn, context.AfterFunc(life, func() { conn.Close() })}, nil
	}
	type result struct {
		client rueidis.Client
		err    error
	}
	made := make(chan result, 1)
	go func() {
		client, err := rueidis.NewClient(option)
		if errors.Is(err, errIdle) && client != nil {
			err = nil
		}
		idle.Store(false)
		made <- result{client, err}
	}()
	select {
	case r := <-made:
		client, err = r.client, r.err
	case <-ctx.Done():
		end() // so it ends soon
		if r := <-made; r.client != nil {
			r.client.Close()
		}
		return nil, nil, ctx.Err()
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return client, end, nil
}

var errIdle = errors.New("no connection is wanted yet")

// mortal is a connection that ends with the client.
type mortal struct {
	net.Conn
	forget func() bool
}

func (m *mortal) Close() error {
	m.forget()
	return m.Conn.Close()
}
