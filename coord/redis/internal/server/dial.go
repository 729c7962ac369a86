package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Dial makes a client for an address. Whether anybody answers there, Check finds out.
func (a Address) Dial(ctx context.Context) (*Server, error) {
	life, end := context.WithCancel(context.Background())
	d := &dialer{life: life, reached: new(atomic.Bool), mayGo: a.mayGo}
	client, err := d.client(ctx, a.option, end)
	if err != nil {
		end()
		return nil, explain(err)
	}
	s := On(client, a.config)
	s.Address, s.secure, s.reached = a.Name, a.option.TLSConfig != nil, d.reached
	s.cut, s.release = end, client.Close
	return s, nil
}

// A dialer makes the connections of one client. They all end with its life: the library would let some of them wait for an
// answer that never comes.
type dialer struct {
	life    context.Context
	idle    atomic.Bool  // no connection is wanted yet
	reached *atomic.Bool // set when an address has accepted a connection
	mayGo   func(address string, cfg *tls.Config) error
}

// mayGo refuses an address that Parse has not seen, if a password may not be sent there: sentinels say where the master is.
func (a Address) mayGo(address string, cfg *tls.Config) error {
	if a.option.Password == "" || slices.Contains(a.option.InitAddress, address) {
		return nil
	}
	if err := driverkit.CheckPassword(address, cfg, a.config.Cleartext, slog.New(slog.DiscardHandler)); err != nil {
		return storekit.Denied("%s", err)
	}
	return nil
}

var errIdle = errors.New("no connection is wanted yet")

// client makes the client itself, or calls end when ctx ends first.
func (d *dialer) client(ctx context.Context, option rueidis.ClientOption, end func()) (rueidis.Client, error) {
	// The library connects at once, without a ctx, and we do not use that connection. With sentinels it asks them.
	d.idle.Store(option.ForceSingleClient)
	option.DialCtxFn = d.dial
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
		d.idle.Store(false)
		made <- result{client, err}
	}()
	select {
	case r := <-made:
		return r.client, r.err
	case <-ctx.Done():
		end() // so it ends soon
		if r := <-made; r.client != nil {
			r.client.Close()
		}
		return nil, ctx.Err()
	}
}

func (d *dialer) dial(ctx context.Context, address string, by *net.Dialer, cfg *tls.Config) (net.Conn, error) {
	if d.idle.Load() {
		return nil, errIdle
	}
	if err := d.mayGo(address, cfg); err != nil {
		return nil, err
	}
	// ctx is the library's. It does not end when the Server is closed and, where sentinels are asked, not at all: one that never ends a
	// handshake would keep it from asking the next.
	ctx, cancel := context.WithTimeout(ctx, by.Timeout)
	defer cancel()
	defer context.AfterFunc(d.life, cancel)()
	network := "tcp"
	if isPath(address) {
		network = "unix"
	}
	conn, err := by.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.reached.Store(true)
	if cfg != nil {
		if conn, err = encrypt(ctx, conn, address, cfg); err != nil {
			return nil, err
		}
	}
	return &mortal{newVetted(conn), context.AfterFunc(d.life, func() { conn.Close() })}, nil
}

// encrypt speaks TLS on a connection, and closes it if that fails.
func encrypt(ctx context.Context, conn net.Conn, address string, cfg *tls.Config) (net.Conn, error) {
	if cfg.ServerName == "" { // the same configuration serves several addresses
		cfg = cfg.Clone()
		cfg.ServerName, _, _ = net.SplitHostPort(address)
	}
	secure := tls.Client(conn, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

// mortal is a connection that ends with the client.
type mortal struct {
	net.Conn
	forget func() bool
}

func (m *mortal) Close() error {
	m.forget()
	return m.Conn.Close()
}
