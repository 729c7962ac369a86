package zk

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// maxDial is what reaching a server and being greeted by it may take, each.
const maxDial = 1500 * time.Millisecond

// dial is the client library's way to a server.
func (s *session) dial(network, addr string, _ time.Duration) (net.Conn, error) {
	if err := sleep(s.ctx, s.hosts.pause()); err != nil {
		return nil, errors.New("the session has ended")
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.dialTimeout())
	defer cancel()
	c, err := s.driver.dial(ctx, network, addr)
	if err != nil {
		s.noteTrouble(addr, err)
		return nil, err
	}
	w := newWire(c, addr, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over() {
		c.Close()
		return nil, errors.New("the session has ended")
	}
	s.wire = w
	return w, nil
}

func (d *Driver) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil || d.tls == nil {
		return c, err
	}
	cfg := d.tls
	if cfg.ServerName == "" && !cfg.InsecureSkipVerify {
		host, _, err := net.SplitHostPort(addr)
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

func (s *session) dialTimeout() time.Duration {
	return min(maxDial, max(s.timeout()/3, 100*time.Millisecond))
}

// troubles is what the servers said, or did not say, when they were last tried.
type troubles struct {
	mu   sync.Mutex
	last error
	// denials counts the servers, by address, that no further try will reach.
	denials map[string]error
	// refused is closed when that is true of all.
	refused chan struct{}
	servers int
}

func (s *session) noteTrouble(addr string, err error) {
	if s.over() {
		return
	}
	s.driver.log.Debug("server out of reach", "server", addr, "error", err)
	t := &s.troubles
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = fmt.Errorf("%s: %w", addr, err)
	if !hopeless(err) || t.servers == 0 {
		return
	}
	t.denials[addr] = err
	if len(t.denials) >= t.servers {
		close(t.refused)
		t.servers = 0
	}
}

func (t *troubles) lastWords() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		return errors.New("no server has answered")
	}
	return t.last
}

// hopeless reports whether to try that server again would be in vain.
func hopeless(err error) bool {
	var unverified *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	var op *net.OpError
	return errors.Is(err, errForeign) || errors.As(err, &unverified) || errors.As(err, &unknown) ||
		errors.As(err, &record) || errors.As(err, &op) && op.Op == "remote error"
}
