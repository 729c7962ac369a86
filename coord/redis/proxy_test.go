package redis

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

func containsAll(s string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

// forwarder is an address that leads to one server, and later to another, as the address of a service does.
type forwarder struct {
	listener net.Listener
	mu       sync.Mutex
	target   string
	conns    []net.Conn
}

func forward(t *testing.T, target string) *forwarder {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forwarder{listener: l, target: target}
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
	t.Cleanup(func() { l.Close(); f.to(""); running.Wait() })
	return f
}

func (f *forwarder) addr() string { return f.listener.Addr().String() }

// to cuts all connections and leads to another server from now on.
func (f *forwarder) to(target string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = target
	for _, c := range f.conns {
		c.Close()
	}
	f.conns = nil
}
