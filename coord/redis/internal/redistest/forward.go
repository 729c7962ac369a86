package redistest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Forwarder is an address that leads to one server, and later to another, as the address of a service does.
type Forwarder struct {
	listener net.Listener
	mu       sync.Mutex
	target   string
	conns    []net.Conn
}

// Forward returns an address that leads to a server.
func Forward(t testing.TB, target string) *Forwarder {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &Forwarder{listener: l, target: target}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			out, err := net.Dial("tcp", f.target)
			if err != nil {
				f.mu.Unlock()
				in.Close()
				continue
			}
			f.conns = append(f.conns, in, out)
			f.mu.Unlock()
			running.Go(func() { io.Copy(out, in); out.Close() })
			running.Go(func() { io.Copy(in, out); in.Close() })
		}
	})
	t.Cleanup(func() { l.Close(); f.To(""); running.Wait() })
	return f
}

// Addr is the address.
func (f *Forwarder) Addr() string { return f.listener.Addr().String() }

// To cuts all connections and leads to another server from now on.
func (f *Forwarder) To(target string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = target
	for _, c := range f.conns {
		c.Close()
	}
	f.conns = nil
}
