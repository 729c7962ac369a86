package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// Dial connects to a server, by TLS if cfg is not nil.
func Dial(ctx context.Context, network, server string, cfg *tls.Config) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, server)
	if err != nil || cfg == nil {
		return c, err
	}
	if cfg.ServerName == "" && !cfg.InsecureSkipVerify {
		host, _, err := net.SplitHostPort(server)
		if err != nil {
			c.Close()
			return nil, err
		}
		cfg = cfg.Clone()
		cfg.ServerName = host
	}
	t := tls.Client(c, cfg)
	if err := t.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return t, nil
}

// Hosts tells the client library which server to try next.
//
// The library's own provider makes it wait a second after each round (so after each try if there is one server) and
// drop what was queued; a short session does not survive that. So this one never reports the end of a round; instead,
// Pause makes tries after the first round wait a little.
type Hosts struct {
	Over    func() bool // the session has ended
	Longest time.Duration

	mu    sync.Mutex
	list  []string
	next  int
	tries int // since the last success
}

// Init is called by the library, and so are Len, Next and Connected.
func (h *Hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = servers
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
	// Only at the end of a round does the library check whether it was closed.
	return server, h.Over()
}

func (h *Hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries = 0
}

// Pause returns how long to wait before the present try: not at all in the first round, then longer with every round.
func (h *Hosts) Pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	rounds := (h.tries - 1) / max(1, len(h.list))
	if rounds <= 0 {
		return 0
	}
	return driverkit.Jitter(min(driverkit.Pause(rounds), h.Longest))
}

// Troubles remembers the latest trouble with any server, and the servers that no further try will reach.
type Troubles struct {
	mu      sync.Mutex
	last    error
	refused map[string]error // by server, why no further try will reach it
	all     chan struct{}    // closed when those are all servers
	servers int
}

// NewTroubles is for that many servers, none of which has been heard from.
func NewTroubles(servers int) *Troubles {
	return &Troubles{refused: make(map[string]error), all: make(chan struct{}), servers: servers}
}

// Note remembers what a server said.
func (t *Troubles) Note(server string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = fmt.Errorf("%s: %w", server, err)
	if !hopeless(err) || len(t.refused) >= t.servers {
		return
	}
	if t.refused[server] = err; len(t.refused) >= t.servers {
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
		errors.As(err, &record) || errors.As(err, &op) && op.Op == "remote error"
}
