// Package faultproxy puts a network that misbehaves between a client and its server: it stalls, delays and cuts
// TCP connections on command. It works on the bytes in between, so the client and the server are real. Unlike traffic
// control in the kernel, it needs no privileges.
//
//	p := faultproxy.Start(t, server.Addr())
//	conn := dial(p.Addr())
//	p.Stall(faultproxy.ToClient) // requests arrive and are applied, the answers don't come back
//	p.Cut()                      // and now they never will
//	p.Heal()
package faultproxy

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Direction is one of the two ways through a proxy.
type Direction int

const (
	ToServer Direction = iota // what the client sends
	ToClient                  // what the server sends
)

// A Proxy listens on an address of its own and forwards every connection to its target. All methods may be
// called at any time. They apply to open and to new connections, unless they say otherwise.
type Proxy struct {
	listener *net.TCPListener
	target   string
	traffic  Traffic // nil: bytes are forwarded as they come
	wait     sync.WaitGroup

	bytes    [2]atomic.Int64
	accepted atomic.Int64

	mu      sync.Mutex
	faults  faults
	next    faults        // what they will be once all changes that belong together are made
	held    int           // such changes under way
	changed chan struct{} // closed when faults change
	links   map[*link]bool
	closed  bool
}

// faults is what is wrong at the moment. The zero value is a network in good order.
type faults struct {
	stalled  [2]bool
	delay    [2]time.Duration
	arrivals arrivals
}

// arrivals says what becomes of new connections.
type arrivals int

const (
	welcome arrivals = iota
	refused
	frozen
)

// New starts a proxy in front of the server at target.
func New(target string) (*Proxy, error) { return NewWithTraffic(target, nil) }

// NewWithTraffic starts a proxy that shows traffic everything it forwards.
func NewWithTraffic(target string, traffic Traffic) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		listener: l.(*net.TCPListener),
		target:   target,
		traffic:  traffic,
		changed:  make(chan struct{}),
		links:    map[*link]bool{},
	}
	p.wait.Go(p.accept)
	return p, nil
}

// Start starts a proxy for a test, which closes it.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := New(target)
	if err != nil {
		t.Fatalf("faultproxy: %v", err)
	}
	t.Cleanup(p.Close)
	return p
}

// Addr is where clients connect, host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Stall keeps back what is sent in the given directions, or in both if none is given. The sender notices nothing: its bytes
// are accepted, and so is the end of its connection. Heal delivers them all, late, as a network does when a partition ends.
// What had arrived before Stall was called may still pass.
func (p *Proxy) Stall(directions ...Direction) {
	p.change(func(f *faults) {
		for _, d := range either(directions) {
			f.stalled[d] = true
		}
	})
}

// Release ends a Stall in the given directions, or in both if none is given: what was kept back there is delivered.
func (p *Proxy) Release(directions ...Direction) {
	p.change(func(f *faults) {
		for _, d := range either(directions) {
			f.stalled[d] = false
		}
	})
}

// Delay forwards everything sent in the given directions, or in both if none is given, that much later: in order, and with
// no less throughput.
func (p *Proxy) Delay(d time.Duration, directions ...Direction) {
	p.change(func(f *faults) {
		for _, direction := range either(directions) {
			f.delay[direction] = d
		}
	})
}

// Freeze accepts new connections and does nothing with them until Heal, like a server stopped by SIGSTOP.
func (p *Proxy) Freeze() { p.change(func(f *faults) { f.arrivals = frozen }) }

// Refuse resets new connections as soon as they are made. The address stays ours: a real refusal would need the
// listener closed, and somebody else could be given its port.
func (p *Proxy) Refuse() { p.change(func(f *faults) { f.arrivals = refused }) }

// Blackhole is a partition: nothing passes in either direction, and new connections hear nothing.
func (p *Proxy) Blackhole() {
	p.change(func(f *faults) { *f = faults{stalled: [2]bool{true, true}, delay: f.delay, arrivals: frozen} })
}

// Heal ends every fault. What was kept back is delivered.
func (p *Proxy) Heal() { p.change(func(f *faults) { *f = faults{} }) }

// Cut resets all open connections, at both ends; what was kept back on them is lost. New ones are not affected.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Lead cuts all connections, and leads new ones to another server, as the name of a service does, or its address. With "" it
// leads nowhere.
func (p *Proxy) Lead(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.Cut()
}

// leads returns where new connections lead.
func (p *Proxy) leads() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// Bytes returns how many bytes were forwarded in a direction.
func (p *Proxy) Bytes(d Direction) int64 { return p.bytes[d].Load() }

// Accepted returns how many connections clients have made, not counting refused ones.
func (p *Proxy) Accepted() int { return int(p.accepted.Load()) }

// Open returns how many connections are open now.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Close cuts all connections and returns when nothing of the proxy is left.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	for l := range p.links {
		l.cut()
	}
	p.mu.Unlock()
	p.change(func(*faults) {})
	_ = p.listener.Close()
	p.wait.Wait()
}

func (p *Proxy) change(apply func(*faults)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	apply(&p.next)
	p.publish()
}

// Together makes several changes at once: what is stalled both before and after them is never released in between.
func (p *Proxy) Together(changes func()) {
	p.mu.Lock()
	p.held++
	p.mu.Unlock()
	changes()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held--
	p.publish()
}

// publish is called with mu held.
func (p *Proxy) publish() {
	if p.held > 0 {
		return
	}
	p.faults = p.next
	close(p.changed)
	p.changed = make(chan struct{})
}

// now returns the current faults, and a channel that is closed when they change.
func (p *Proxy) now() (faults, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults, p.changed
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.AcceptTCP()
		if err != nil {
			return // closed
		}
		if f, _ := p.now(); f.arrivals == refused {
			reset(conn)
			continue
		}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			reset(conn)
			return
		}
		l := &link{proxy: p, number: int(p.accepted.Add(1)), client: conn, dead: make(chan struct{})}
		p.links[l] = true
		p.wait.Go(l.run)
		p.mu.Unlock()
	}
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func either(directions []Direction) []Direction {
	if len(directions) == 0 {
		return []Direction{ToServer, ToClient}
	}
	return directions
}
