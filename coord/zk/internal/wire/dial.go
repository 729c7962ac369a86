package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/internal/chance"
)

// Hosts tells the client library which server to try next.
//
// The library's own provider makes it wait a second after each round (with a single server, after each try) and drop what
// was queued; a short session does not survive that. This one never reports the end of a round; instead, Pause makes tries
// after the first round wait a little.
type Hosts struct {
	Over    func() bool          // the session has ended
	Longest func() time.Duration // the longest pause
	Lookup  func(ctx context.Context, name string) (addresses []string, err error)
	Dialer  func(ctx context.Context, network, address string) (net.Conn, error) // gets servers as they are named; nil: ours

	mu    sync.Mutex
	list  []string
	next  int
	tries int              // since the last success
	names map[string]*name // by server; those that have several addresses
}

// name is a server that has several addresses.
type name struct {
	addresses int
	next      int
}

// Dial connects to a server. If its name has several addresses, each try begins with a different one, because only later do
// we learn which of them serve. as tells them apart.
func (h *Hosts) Dial(ctx context.Context, server string) (c net.Conn, as string, err error) {
	if h.Dialer != nil {
		c, err = h.Dialer(ctx, "tcp", server)
		return c, server, err
	}
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return nil, server, err
	}
	addresses := []string{host}
	if net.ParseIP(host) == nil {
		if addresses, err = h.Lookup(ctx, host); err != nil {
			return nil, server, err
		}
		slices.Sort(addresses)
		addresses = slices.Compact(addresses)
	}
	if len(addresses) == 0 {
		return nil, server, errors.New("the name has no address")
	}
	first := h.turn(server, len(addresses))
	for i, n := 0, len(addresses); i < n; i++ {
		address := net.JoinHostPort(addresses[(first+i)%n], port)
		if as = server; n > 1 {
			as += " (" + address + ")"
		}
		if c, err = dialOne(ctx, address, n-i); err == nil {
			break
		}
	}
	return c, as, err
}

// Secure speaks TLS on a connection to a server, and closes it if that fails.
func Secure(ctx context.Context, c net.Conn, server string, cfg *tls.Config) (net.Conn, error) {
	if cfg.ServerName == "" && !cfg.InsecureSkipVerify {
		cfg = cfg.Clone()
		cfg.ServerName, _, _ = net.SplitHostPort(server)
	}
	t := tls.Client(c, cfg)
	if err := t.HandshakeContext(ctx); err != nil {
		c.Close()
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", ErrSlow, err)
		}
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return t, nil
}

// dialOne connects to one address, in its share of the remaining time: left addresses are still to be tried.
func dialOne(ctx context.Context, address string, left int) (net.Conn, error) {
	if until, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(until)/time.Duration(left))
		defer cancel()
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// turn says which of its addresses a try of a server begins with.
func (h *Hosts) turn(server string, addresses int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if addresses < 2 {
		delete(h.names, server)
		return 0
	}
	n := h.names[server]
	if n == nil {
		n = &name{next: int(chance.Below(int64(addresses)))}
		if h.names == nil {
			h.names = make(map[string]*name)
		}
		h.names[server] = n
	}
	n.addresses = addresses
	n.next++
	return n.next % addresses
}

// Addresses returns how many addresses all servers have together, as far as is known.
func (h *Hosts) Addresses() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := len(h.list)
	for _, n := range h.names {
		all += n.addresses - 1
	}
	return all
}

// Init is called by the library, and so are Len, Next and Connected. The library has shuffled the servers itself, in a way
// that the simulation does not control, so they are shuffled again.
func (h *Hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = slices.Sorted(slices.Values(servers))
	for i := range h.list {
		j := i + int(chance.Below(int64(len(h.list)-i)))
		h.list[i], h.list[j] = h.list[j], h.list[i]
	}
	return nil
}

func (h *Hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.list)
}

func (h *Hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.list[h.next]
	h.next = (h.next + 1) % len(h.list)
	h.tries++
	// The library checks only at the end of a round whether it was closed.
	return server, h.Over()
}

func (h *Hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries = 0
}

// Pause returns how long to wait before the present try: nothing in the first round, then longer with every round.
func (h *Hosts) Pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	rounds := (h.tries - 1) / max(1, len(h.list))
	if rounds <= 0 {
		return 0
	}
	return driverkit.Jitter(min(driverkit.Pause(rounds), h.Longest()))
}

// Troubles remembers the latest trouble with any server, and the servers that no further try will reach.
type Troubles struct {
	mu      sync.Mutex
	last    error
	refused map[string]error // by server, why no further try will reach it
	all     chan struct{}    // closed when those are all servers
	closed  bool             // all is
	servers func() int
}

// NewTroubles begins with nothing heard from any server; the function says how many there are.
func NewTroubles(servers func() int) *Troubles {
	return &Troubles{refused: make(map[string]error), all: make(chan struct{}), servers: servers}
}

// Note remembers what a server said.
func (t *Troubles) Note(server string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = fmt.Errorf("%s: %w", server, err)
	if !hopeless(err) {
		return
	}
	t.refused[server] = err
	if all := len(t.refused) >= t.servers(); all && !t.closed {
		t.closed = true
		close(t.all)
	}
}

// Last returns the latest trouble.
func (t *Troubles) Last() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		return errors.New("no server has answered")
	}
	return t.last
}

// Hopeless is closed when no further try will reach any server.
func (t *Troubles) Hopeless() <-chan struct{} { return t.all }

// hopeless reports whether trying that server again would be in vain.
func hopeless(err error) bool {
	var unverified *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	var op *net.OpError
	return errors.Is(err, ErrForeign) || errors.As(err, &unverified) || errors.As(err, &unknown) ||
		errors.As(err, &record) || errors.As(err, &op) && op.Op == "remote error" && refusal(op.Err)
}

// refusal reports whether a TLS alert is about our certificate or our version of TLS. Other alerts may be temporary: a
// proxy sends them while what is behind it is down.
func refusal(alert error) bool {
	for _, code := range []tls.AlertError{
		42, 43, 44, 45, 46, 48, 116, // a certificate: bad, of a wrong type, revoked, expired, unknown, of an unknown authority, missing
		70, 71, // protocol version, insufficient security
	} {
		if alert.Error() == code.Error() {
			return true
		}
	}
	return false
}
