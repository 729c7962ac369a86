package zk

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// wire is a connection to a server, as the client library gets it, with an eye on what passes. The library tells
// neither the timeout that was granted, nor when a request went out or was answered; the frames do.
type wire struct {
	net.Conn
	session *session
	addr    string

	// Of the one goroutine that reads.
	in       *bufio.Reader
	first    []byte // what the library has not read yet of the server's first frame
	rest     int    // what it has not read yet of the present frame
	greeted  bool
	caughtUp bool // no reply is held back any more: see awaitRewatch

	mu      sync.Mutex
	sent    []sentRequest // unanswered, the oldest first
	started time.Time     // when the connect request was sent
	silent  atomic.Bool   // nothing may be written any more
}

type sentRequest struct {
	xid, op int32
	at      time.Time
}

// credentials are what the service knows a session by.
type credentials struct {
	id       int64
	password []byte
}

// What is known of the protocol. A frame begins with its length.
const (
	xidNotification = -1

	opCreate     = 1
	opSetWatches = 101
	opClose      = -11

	greetingBody = 36        // protocol version, timeout, session, password of 16 bytes; newer servers add a byte
	replyHead    = 16        // xid, zxid, error
	maxFrame     = 256 << 20 // a list of some millions of names
)

// errForeign: whoever answers at the address is no ZooKeeper.
var errForeign = errors.New("the answer is not ZooKeeper's: check the address, and whether it wants TLS")

func newWire(c net.Conn, addr string, s *session, rewatch bool) *wire {
	return &wire{Conn: c, addr: addr, session: s, caughtUp: !rewatch, in: bufio.NewReaderSize(c, 32<<10)}
}

// Read hands on what the server says, frame by frame.
func (w *wire) Read(p []byte) (int, error) {
	if len(w.first) > 0 {
		n := copy(p, w.first)
		w.first = w.first[n:]
		return n, nil
	}
	if w.rest == 0 {
		if err := w.nextFrame(); err != nil {
			w.session.noteTrouble(w.addr, err)
			return 0, err
		}
		if len(w.first) > 0 {
			return w.Read(p)
		}
	}
	n, err := w.in.Read(p[:min(len(p), w.rest)])
	w.rest -= n
	return n, err
}

func (w *wire) nextFrame() error {
	if !w.greeted {
		return w.greeting()
	}
	n, xid, zxid, err := w.head()
	if err != nil {
		return err
	}
	w.rest = n
	if !w.caughtUp && xid > 0 && zxid > 0 {
		return w.awaitRewatch()
	}
	return nil
}

// head looks at the head of the next frame and takes note of it. n is the length of all of it.
func (w *wire) head() (n int, xid int32, zxid int64, err error) {
	b, err := w.in.Peek(4)
	if err != nil {
		return 0, 0, 0, err
	}
	body := int(int32(binary.BigEndian.Uint32(b)))
	if body < replyHead || body > maxFrame {
		return 0, 0, 0, fmt.Errorf("%w: a frame of %d bytes", errForeign, body)
	}
	if b, err = w.in.Peek(4 + replyHead); err != nil {
		return 0, 0, 0, err
	}
	xid = int32(binary.BigEndian.Uint32(b[4:]))
	zxid = int64(binary.BigEndian.Uint64(b[8:]))
	if xid == xidNotification {
		w.session.notified = zxid
	} else {
		w.answered(xid)
	}
	return 4 + body, xid, zxid, nil
}

// greeting takes the answer to the connect request. The library is told three fifths of the timeout: it pings at a
// third of what it knows and gives a connection up at two thirds of it, so now at 0.2 and 0.4 of the session's
// timeout. That leaves time to reach another server, and keeps the leader up to date: see keptFor.
func (w *wire) greeting() error {
	head, err := w.in.Peek(4)
	if err != nil {
		return err
	}
	n := int(int32(binary.BigEndian.Uint32(head)))
	if n < greetingBody || n > greetingBody+16 {
		return errForeign
	}
	b := make([]byte, 4+n)
	if _, err := readFull(w.in, b); err != nil {
		return err
	}
	if version := binary.BigEndian.Uint32(b[4:]); version != 0 {
		return errForeign
	}
	timeout := time.Duration(int32(binary.BigEndian.Uint32(b[8:]))) * time.Millisecond
	id := int64(binary.BigEndian.Uint64(b[12:]))
	if id != 0 {
		if timeout <= 0 {
			return errForeign
		}
		w.session.granted(credentials{id, b[24:40]}, timeout, w.started)
		binary.BigEndian.PutUint32(b[8:], uint32((timeout * 3 / 5).Milliseconds()))
	}
	if id != 0 && !w.caughtUp {
		w.session.rewatch.expect()
	}
	w.greeted = true
	w.first = b
	return nil
}

func readFull(r *bufio.Reader, b []byte) (int, error) {
	for n := 0; n < len(b); {
		m, err := r.Read(b[n:])
		n += m
		if err != nil {
			return n, err
		}
	}
	return len(b), nil
}

// answered finds the request that a reply belongs to. Replies come in the order of the requests, save those to
// authentication; pings share one xid.
func (w *wire) answered(xid int32) {
	w.mu.Lock()
	var r sentRequest
	found := false
	for i := range w.sent {
		if w.sent[i].xid == xid {
			r, found = w.sent[i], true
			if i == 0 {
				w.sent = w.sent[1:]
			} else {
				w.sent = append(w.sent[:i], w.sent[i+1:]...)
			}
			break
		}
	}
	w.mu.Unlock()
	if !found {
		return
	}
	w.session.renewed(r.at)
	if r.op == opClose {
		w.session.farewell()
	}
}

// awaitRewatch holds the first reply back until the watches were handed over that are to be set again on this
// connection. The library sends them with the id of the last transaction that it knows of at that moment, and a reply
// that overtakes them moves that id on, past changes which the watches were to tell. (The race detector calls it a race
// on lastZxid, with reason.)
func (w *wire) awaitRewatch() error {
	w.caughtUp = true
	r := &w.session.rewatch
	select {
	case <-r.complete():
	case <-time.After(min(w.session.timeout()/4, time.Second)): // better late than never
		r.giveUp()
	case <-w.session.done:
		return w.lastWords()
	}
	return nil
}

// lastWords reads on for a session that is over and waits only for the service to confirm that. The library, which
// would set no watches again now, gets nothing of it.
func (w *wire) lastWords() error {
	for n := w.rest; ; {
		if _, err := w.in.Discard(n); err != nil {
			return err
		}
		var err error
		if n, _, _, err = w.head(); err != nil {
			return err
		}
	}
}

// Write sends one frame: the library writes each at once.
func (w *wire) Write(b []byte) (int, error) {
	if w.silent.Load() {
		return 0, net.ErrClosed
	}
	now := time.Now()
	w.mu.Lock()
	first := w.started.IsZero()
	if first {
		w.started = now
	} else if len(b) >= 12 {
		w.sent = append(w.sent, sentRequest{int32(binary.BigEndian.Uint32(b[4:])), int32(binary.BigEndian.Uint32(b[8:])), now})
	}
	w.mu.Unlock()
	if first {
		return w.Conn.Write(w.connectRequest(b))
	}
	n, err := w.Conn.Write(b)
	if len(b) >= 12 {
		w.wrote(b, err)
	}
	return n, err
}

// connectRequest asks for the timeout that was wanted at first, not for what greeting made of it.
func (w *wire) connectRequest(b []byte) []byte {
	if len(b) < 20 {
		return b
	}
	c := append([]byte(nil), b...)
	binary.BigEndian.PutUint32(c[16:], uint32(w.session.driver.timeout.Milliseconds()))
	return c
}

func (w *wire) wrote(b []byte, err error) {
	switch int32(binary.BigEndian.Uint32(b[8:])) {
	case opCreate:
		if len(b) < 16 || err != nil {
			return
		}
		if n := int(binary.BigEndian.Uint32(b[12:])); n >= 0 && n <= len(b)-16 {
			w.session.createSent(string(b[16 : 16+n]))
		}
	case opSetWatches:
		w.session.rewatch.sent()
	}
}

// waiting is for how long the oldest request has had no answer.
func (w *wire) waiting(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.sent) == 0 {
		return 0
	}
	return now.Sub(w.sent[0].at)
}

// SetReadDeadline lets the library wait less for the first frame than it would: ten times what it waits for others, so
// that one frozen server cost the session though others were in good health.
func (w *wire) SetReadDeadline(t time.Time) error {
	if limit := time.Now().Add(w.session.dialTimeout()); !w.greeted && (t.IsZero() || t.After(limit)) {
		t = limit
	}
	return w.Conn.SetReadDeadline(t)
}

// silence ends the connection without another word to the server.
func (w *wire) silence() {
	w.silent.Store(true)
	w.Conn.Close()
}
