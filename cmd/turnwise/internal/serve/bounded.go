package serve

import (
	"net"
	"sync"
)

// bounded accepts a connection only when there is room for one more.
type bounded struct {
	net.Listener
	places chan struct{}
	closed chan struct{}
	once   sync.Once
}

// atMost returns a listener that has so many connections at once.
func atMost(n int, l net.Listener) net.Listener {
	return &bounded{Listener: l, places: make(chan struct{}, n), closed: make(chan struct{})}
}

func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.places <- struct{}{}:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.places
		return nil, err
	}
	return &placed{Conn: c, leave: sync.OnceFunc(func() { <-b.places })}, nil
}

func (b *bounded) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

// placed is a connection that gives its place back when it is closed.
type placed struct {
	net.Conn
	leave func()
}

func (c *placed) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
