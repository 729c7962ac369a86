package zookeeper

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// Parcel is something on its way between a client and a member.
type Parcel struct {
	Link       string // the client's
	Connection int    // its number among all; what goes one way on it arrives in order
	What       string // in a word or two
	HungUp     bool   // the member has ended the connection
	Event      bool   // news of a node, which nobody has asked for
	Deleted    string // by such news, the path of a node that has gone
	Owner      string // the link of the session that it was of

	// Arrive is called once, or never if it is lost with its connection. It reports whether there is still somebody to read it.
	Arrive func() bool
}

// Network carries parcels.
type Network interface {
	ToMember(Parcel)
	ToClient(Parcel)
}

// pipe is a client's end of a connection. It takes whatever is written at once, as a kernel does.
type pipe struct {
	conn *conn // the member's end

	mu      sync.Mutex
	out     []byte // less than a frame
	greeted bool
	in      []byte
	closed  bool // by the client
	over    bool // nothing more will come
	news    chan struct{}
	limit   time.Time // for reading
	timer   *time.Timer
}

func newPipe(c *conn) *pipe { return &pipe{conn: c, news: make(chan struct{})} }

// wake has a reader look again. It needs mu.
func (p *pipe) wake() {
	close(p.news)
	p.news = make(chan struct{})
}

func (p *pipe) Read(b []byte) (int, error) {
	for {
		p.mu.Lock()
		switch {
		case p.closed:
			p.mu.Unlock()
			return 0, net.ErrClosed
		case !p.limit.IsZero() && !time.Now().Before(p.limit):
			p.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case len(p.in) > 0:
			n := copy(b, p.in)
			p.in = p.in[n:]
			p.mu.Unlock()
			return n, nil
		case p.over:
			p.mu.Unlock()
			return 0, io.EOF
		}
		news := p.news
		p.mu.Unlock()
		<-news
	}
}

// Write sends each frame as soon as it is complete.
func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return 0, net.ErrClosed
	}
	if p.over { // only reading shows it
		p.mu.Unlock()
		return len(b), nil
	}
	p.out = append(p.out, b...)
	var frames [][]byte
	for len(p.out) >= 4 {
		n := int(int32(binary.BigEndian.Uint32(p.out)))
		if n >= 0 && n <= maxBuffer && len(p.out) < 4+n {
			break
		}
		if n < 0 || n > maxBuffer {
			n = len(p.out) - 4 // the member will hang up
		}
		frames = append(frames, slices.Clone(p.out[:4+n]))
		p.out = p.out[4+n:]
	}
	first := !p.greeted
	p.greeted = p.greeted || len(frames) > 0
	p.mu.Unlock()
	c := p.conn
	for i, f := range frames {
		c.e.cfg.Network.ToMember(Parcel{Link: c.link, Connection: c.number, What: c.e.describe(f, first && i == 0), Arrive: func() bool {
			c.e.mu.Lock()
			defer c.e.unlock()
			c.receive(f)
			return true
		}})
	}
	return len(b), nil
}

func (p *pipe) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return net.ErrClosed
	}
	p.closed = true
	p.wake()
	if p.timer != nil {
		p.timer.Stop()
	}
	over := p.over
	p.mu.Unlock()
	c := p.conn
	if !over {
		c.e.cfg.Network.ToMember(Parcel{Link: c.link, Connection: c.number, What: "hang up", Arrive: func() bool {
			c.e.mu.Lock()
			defer c.e.unlock()
			c.end()
			return true
		}})
	}
	return nil
}

// deliver adds what has arrived from the member. It reports whether anybody will read it.
func (p *pipe) deliver(b []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.over {
		return false
	}
	p.in = append(p.in, b...)
	p.wake()
	return true
}

// finish says that nothing more will come.
func (p *pipe) finish() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.over {
		return false
	}
	p.over = true
	p.wake()
	return true
}

func (p *pipe) SetReadDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	p.limit = t
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	if !t.IsZero() {
		p.timer = time.AfterFunc(time.Until(t), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.wake()
		})
	}
	return nil
}

func (p *pipe) SetDeadline(t time.Time) error  { return p.SetReadDeadline(t) }
func (*pipe) SetWriteDeadline(time.Time) error { return nil } // writes never wait
func (p *pipe) LocalAddr() net.Addr            { return address(p.conn.link) }
func (p *pipe) RemoteAddr() net.Addr           { return address(p.conn.m.Address()) }

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }
