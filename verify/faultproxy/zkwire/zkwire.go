// Package zkwire is a faultproxy that understands ZooKeeper. It counts events, and requests by operation, and it can lose
// just one request or just one answer. That is where distributed locks go wrong: the node was created, and the client was
// told that the connection is lost.
//
//	p := zkwire.Start(t, server.Addr())
//	p.OnRequest(func(r zkwire.Request) zkwire.Verdict {
//		if r.Op == zkwire.Create {
//			return zkwire.DropReply
//		}
//		return zkwire.Pass
//	})
package zkwire

import (
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/verify/faultproxy"
)

// A Request is one request of a client.
type Request struct {
	Op   Op
	Xid  int32
	Path string // of a Multi, that of its first operation; empty if the operation has none
	Conn int    // which connection, from 1 in the order in which they came
}

// A Verdict is what becomes of a request.
type Verdict struct {
	lose    loss
	delay   time.Duration
	release <-chan struct{}
}

type loss int

const (
	nothing loss = iota
	request
	reply
)

var (
	// Pass forwards the request and its answer.
	Pass = Verdict{}
	// DropBeforeApply cuts the connection; the server never sees the request.
	DropBeforeApply = Verdict{lose: request}
	// DropReply forwards the request and cuts the connection when the server has answered: the request was applied, and
	// the client does not know it.
	DropReply = Verdict{lose: reply}
)

// DelayRequest forwards the request, and what the client sends after it, that much later.
func DelayRequest(d time.Duration) Verdict { return Verdict{delay: d} }

// HoldReply forwards the request, and its answer, and what the server sends after it, when release is closed.
func HoldReply(release <-chan struct{}) Verdict { return Verdict{release: release} }

// A Proxy stands in front of one ZooKeeper server.
type Proxy struct {
	*faultproxy.Proxy

	mu       sync.Mutex
	hook     func(Request) Verdict
	requests map[Op]int
	events   int
	conns    map[int]*conn
}

// New starts a proxy in front of the server at target.
func New(target string) (*Proxy, error) {
	p := &Proxy{requests: map[Op]int{}, conns: map[int]*conn{}}
	var err error
	p.Proxy, err = faultproxy.NewWithTraffic(target, (*traffic)(p))
	return p, err
}

// Start starts a proxy for a test, which closes it.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := New(target)
	if err != nil {
		t.Fatalf("zkwire: %v", err)
	}
	t.Cleanup(p.Close)
	return p
}

// OnRequest makes the hook decide about every request from now on, including pings; nil lets all pass. Several connections
// may call the hook at the same time, and each waits for it.
func (p *Proxy) OnRequest(hook func(Request) Verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
}

// Requests returns how many requests of these operations were sent to the server since the last Reset. If none are given, it
// counts all requests except pings.
func (p *Proxy) Requests(ops ...Op) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := 0
	for _, op := range ops {
		sum += p.requests[op]
	}
	if len(ops) == 0 {
		for op, n := range p.requests {
			if op != Ping {
				sum += n
			}
		}
	}
	return sum
}

// Events returns how many watch events were sent to the clients since the last Reset.
func (p *Proxy) Events() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events
}

// Reset starts counting from zero.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.requests)
	p.events = 0
}

// conn is what is known of one connection.
type conn struct {
	plain   bool              // a four-letter command, not a session
	greeted [2]bool           // the first frame, which opens the session, has passed
	fate    map[int32]Verdict // by the xid of a reply
}

// traffic keeps the methods that faultproxy calls out of the Proxy that tests see.
type traffic Proxy

func (p *traffic) conn(number int) *conn {
	c := p.conns[number]
	if c == nil {
		c = &conn{fate: map[int32]Verdict{}}
		p.conns[number] = c
	}
	return c
}

// Message finds the end of a frame, which is its length and that many bytes.
func (p *traffic) Message(number int, d faultproxy.Direction, data []byte) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.conn(number)
	if !c.plain && len(data) < 4 {
		return 0
	}
	// Four letters, read as a length, are far more than a server accepts.
	size := (&reader{data}).int32()
	if c.plain || d == faultproxy.ToServer && !c.greeted[d] && size > 1<<24 {
		c.plain = true
		return len(data)
	}
	if len(data) < 4+int(size) {
		return 0
	}
	return 4 + int(size)
}

// Judge counts the message and asks the hook.
func (p *traffic) Judge(number int, d faultproxy.Direction, message []byte) faultproxy.Verdict {
	p.mu.Lock()
	c := p.conn(number)
	if c.plain || !c.greeted[d] {
		c.greeted[d] = true
		p.mu.Unlock()
		return faultproxy.Verdict{}
	}
	if d == faultproxy.ToClient {
		defer p.mu.Unlock()
		return p.judgeReply(c, message)
	}
	hook := p.hook
	p.mu.Unlock()

	r := parseRequest(message)
	r.Conn = number
	v := Pass
	if hook != nil {
		v = hook(r)
	}
	if v.lose == request {
		return faultproxy.Verdict{Cut: true}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests[r.Op]++
	if v.lose == reply || v.release != nil {
		c.fate[r.Xid] = v
	}
	return faultproxy.Verdict{Delay: v.delay}
}

func (p *traffic) judgeReply(c *conn, message []byte) faultproxy.Verdict {
	xid := parseReplyXid(message)
	if xid == eventXid {
		p.events++
		return faultproxy.Verdict{}
	}
	v := c.fate[xid]
	delete(c.fate, xid)
	return faultproxy.Verdict{Cut: v.lose == reply, Until: v.release}
}
