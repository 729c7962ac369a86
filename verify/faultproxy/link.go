package faultproxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// A link is one client's connection, and ours to the server that belongs to it.
type link struct {
	proxy  *Proxy
	number int
	client *net.TCPConn

	mu     sync.Mutex
	server *net.TCPConn // nil before it is dialled
	dead   chan struct{}
	isDead bool
}

func (l *link) run() {
	defer l.proxy.forget(l)
	defer l.client.Close()
	if !l.dial() {
		reset(l.client)
		return
	}
	defer l.server.Close()
	there := newPump(l, ToServer, l.client, l.server)
	back := newPump(l, ToClient, l.server, l.client)
	var wait sync.WaitGroup
	wait.Go(there.read)
	wait.Go(there.write)
	wait.Go(back.read)
	wait.Go(back.write)
	wait.Wait()
}

// dial connects to the server, once new connections are no longer frozen.
func (l *link) dial() bool {
	for {
		f, changed := l.proxy.now()
		if f.arrivals != frozen {
			break
		}
		select {
		case <-changed:
		case <-l.dead:
			return false
		}
	}
	conn, err := net.DialTimeout("tcp", l.proxy.leads(), 10*time.Second)
	if err != nil {
		return false // the client sees a reset, which is as near as possible to the target's own refusal
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = conn.(*net.TCPConn)
	if l.isDead {
		reset(l.server)
	}
	return !l.isDead
}

// cut resets both ends.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isDead {
		return
	}
	l.isDead = true
	close(l.dead)
	reset(l.client)
	if l.server != nil {
		reset(l.server)
	}
}

func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // so that closing sends RST, not FIN
	_ = conn.Close()
}

// A pump carries one direction. It reads without pause, so that the sender never notices a stall, and writes
// when the faults allow.
type pump struct {
	link      *link
	direction Direction
	from, to  *net.TCPConn
	arrived   chan struct{} // capacity 1: there is something in the queue

	mu    sync.Mutex
	queue []piece
}

// A piece is what is forwarded in one go: some bytes, or the end of the stream.
type piece struct {
	bytes []byte
	end   error // io.EOF for a proper end
	at    time.Time
}

func newPump(l *link, d Direction, from, to *net.TCPConn) *pump {
	return &pump{link: l, direction: d, from: from, to: to, arrived: make(chan struct{}, 1)}
}

func (p *pump) read() {
	var unread []byte
	chunk := make([]byte, 32<<10)
	for {
		n, err := p.from.Read(chunk)
		unread = append(unread, chunk[:n]...)
		for len(unread) > 0 {
			size := p.unit(unread)
			if size == 0 && err == nil {
				break // the rest of it is still to come
			}
			if size == 0 {
				size = len(unread)
			}
			p.push(piece{bytes: bytes.Clone(unread[:size]), at: time.Now()})
			unread = unread[size:]
		}
		if err != nil {
			p.push(piece{end: err, at: time.Now()})
			return
		}
	}
}

func (p *pump) write() {
	for {
		next, ok := p.pop()
		if !ok || !p.admit(next.at) {
			return
		}
		if next.end != nil {
			p.finish(next.end)
			return
		}
		message := p.judge(next.bytes)
		if message == nil {
			return
		}
		// Counted first: when a receiver has something, it is already counted.
		p.link.proxy.bytes[p.direction].Add(int64(len(message)))
		// When the receiver has gone, the rest goes nowhere. The other pump tells the sender of the end.
		_, _ = p.to.Write(message)
	}
}

// admit waits until a piece that arrived at that time may pass. It returns false if that never happens, since the link is
// dead.
func (p *pump) admit(at time.Time) bool {
	for {
		f, changed := p.link.proxy.now()
		var due <-chan time.Time // nil while stalled: only a change helps
		if !f.stalled[p.direction] {
			wait := time.Until(at.Add(f.delay[p.direction]))
			if wait <= 0 {
				return true
			}
			due = time.After(wait)
		}
		select {
		case <-due:
		case <-changed:
		case <-p.link.dead:
			return false
		}
	}
}

func (p *pump) finish(end error) {
	if errors.Is(end, io.EOF) {
		_ = p.to.CloseWrite()
	} else {
		reset(p.to)
	}
}

func (p *pump) push(next piece) {
	p.mu.Lock()
	p.queue = append(p.queue, next)
	p.mu.Unlock()
	select {
	case p.arrived <- struct{}{}:
	default:
	}
}

// pop waits for the next piece. It returns false if there will be none, since the link is dead.
func (p *pump) pop() (piece, bool) {
	for {
		p.mu.Lock()
		if len(p.queue) > 0 {
			next := p.queue[0]
			p.queue = p.queue[1:]
			p.mu.Unlock()
			return next, true
		}
		p.mu.Unlock()
		select {
		case <-p.arrived:
		case <-p.link.dead:
			return piece{}, false
		}
	}
}
