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
	"github.com/turnwise/turnwise/coord/register"
)

// Open returns a store in the Redis or Valkey at an address: host:port, or a URL as in
//
//	redis://user:password@host:6379/0
//	rediss://host:6379                                          over TLS
//	unix:///run/redis/redis.sock
//	redis://sentinel:26379?addr=other:26379&master_set=orders   the master that sentinels name
//
// It checks that the server can and may do all that is needed, and tries on while it is out of reach: until ctx ends or,
// if ctx has no deadline, for 30 s. ctx governs no more than that. Close ends the connections.
//
// A password goes as it is. Without TLS it is refused unless the address is on this machine; see [WithCleartextPassword].
func Open(ctx context.Context, address string, opts ...Option) (*Store, error) {
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	option, name, err := dialOption(address)
	if err != nil {
		return nil, err
	}
	if option.Password != "" && option.TLSConfig == nil && !c.cleartext {
		for _, a := range option.InitAddress {
			if !strings.HasPrefix(a, "/") && !driverkit.OnThisMachine(a) {
				return nil, fmt.Errorf("turnwise: redis: the password would go to %s in clear: use rediss://, or "+
					"WithCleartextPassword if nobody can listen on the way", a)
			}
		}
	}
	if _, bound := ctx.Deadline(); !bound {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, openFor)
		defer cancel()
	}
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		s, err := open(ctx, option, name, c)
		if err == nil {
			return s, nil
		}
		if !passing(err) {
			return nil, err
		}
		c.log.Warn("redis: cannot open yet, trying on", "err", err)
		if driverkit.Sleep(ctx, pause) != nil {
			if !errors.Is(err, ctx.Err()) {
				err = fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			return nil, err
		}
	}
}

// openFor is how long Open tries if nobody says.
const openFor = 30 * time.Second

func open(ctx context.Context, option rueidis.ClientOption, name string, c config) (*Store, error) {
	client, release, err := dial(ctx, option)
	if err != nil {
		return nil, openError(name, explain(err))
	}
	s, err := newStore(ctx, client, release, name, c)
	if err != nil {
		release()
	}
	return s, err
}

// OpenWith returns a store on a client that the caller has made, and closes. Anything but a client of a cluster does. ctx
// governs the check only, and nothing is tried again. The store takes two connections of the client's pool for blocking
// commands, and keeps them.
func OpenWith(ctx context.Context, client rueidis.Client, opts ...Option) (*Store, error) {
	c, err := configure(opts)
	if err != nil {
		return nil, err
	}
	if client.Mode() == rueidis.ClientModeCluster {
		return nil, openError("", errCluster)
	}
	return newStore(ctx, client, func() {}, "", c)
}

func newStore(ctx context.Context, client rueidis.Client, release func(), name string, c config) (*Store, error) {
	s := &Store{
		root:  c.root,
		mark:  strings.TrimSuffix(c.root, ":") + ".memory",
		index: strings.TrimSuffix(c.root, ":") + ".keys",
		log:   c.log,
		conn:  newConnection(client, rueidis.PubSubHooks{}),
		ears:  newEars(client, c.log),
	}
	err := s.inspect(ctx)
	if err == nil {
		var m register.Memory
		if m, err = s.recall(ctx); err == nil {
			s.memory.Store(&m.ID)
			err = s.rehearse(ctx)
		}
	}
	if err != nil {
		s.release = func() {}
		s.Close()
		return nil, openError(name, err)
	}
	s.release = release
	return s, nil
}

func openError(name string, err error) error {
	if name != "" {
		name = " " + name
	}
	return fmt.Errorf("turnwise: redis: open%s: %w", name, err)
}

// dialOption returns how to reach an address, and the address without secrets.
func dialOption(address string) (option rueidis.ClientOption, name string, err error) {
	if !strings.Contains(address, "://") {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return option, "", fmt.Errorf("turnwise: redis: %q is neither host:port nor a URL such as redis://host:6379/0", address)
		}
		option.InitAddress = []string{address}
	} else if option, err = rueidis.ParseURL(address); err != nil {
		scheme, _, _ := strings.Cut(address, "://") // the rest may hold a password, and so may the error
		return option, "", fmt.Errorf("turnwise: redis: the URL %s://… is not one of the kind redis://user:password@host:6379/0, "+
			"rediss://… or unix:///…", scheme)
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

// dial makes a client whose connections all end with release.
func dial(ctx context.Context, option rueidis.ClientOption) (client rueidis.Client, release func(), err error) {
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
		var conn net.Conn
		var err error
		if cfg != nil {
			conn, err = (&tls.Dialer{NetDialer: dialer, Config: cfg}).DialContext(ctx, network, address)
		} else {
			conn, err = dialer.DialContext(ctx, network, address)
		}
		if err != nil {
			return nil, err
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
	return client, func() { end(); client.Close() }, nil
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
