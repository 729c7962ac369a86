package zk

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
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
	in      *bufio.Reader
	first   []byte // what the library has not read yet of what was changed for it
	rest    int    // what it has not read yet of the present frame
	greeted bool

	mu      sync.Mutex
	sent    []sentRequest // unanswered, the oldest first
	started time.Time     // when the connect request was sent
	watched bool          // what was watched on the connection before, if any, is watched on this one
	missed  int64         // since this transaction nothing was watched
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

func newWire(c net.Conn, addr string, s *session) *wire {
	return &wire{
		Conn: c, addr: addr, session: s, in: bufio.NewReaderSize(c, 32<<10),
		watched: !s.introduced.Load(), missed: s.zxids.watchedUntil(),
	}
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

// nextFrame looks at the head of the next frame. For why the library is not told its zxid see zxids.
func (w *wire) nextFrame() error {
	if !w.greeted {
		return w.greeting()
	}
	b, err := w.in.Peek(4)
	if err != nil {
		return err
	}
	n := int(int32(binary.BigEndian.Uint32(b)))
	if n < replyHead || n > maxFrame {
		return fmt.Errorf("%w: a frame of %d bytes", errForeign, n)
	}
	head := make([]byte, 4+replyHead)
	if _, err := io.ReadFull(w.in, head); err != nil {
		return err
	}
	xid := int32(binary.BigEndian.Uint32(head[4:]))
	zxid := int64(binary.BigEndian.Uint64(head[8:]))
	if xid == xidNotification {
		w.session.notified = zxid
	} else {
		w.answered(xid, zxid)
		binary.BigEndian.PutUint64(head[8:], 0)
	}
	w.first, w.rest = head, n-replyHead
	return nil
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
	if _, err := io.ReadFull(w.in, b); err != nil {
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
	w.greeted = true
	w.first = b
	return nil
}

// answered finds the request that a reply belongs to. Replies come in the order of the requests, save those to
// authentication; pings share one xid.
func (w *wire) answered(xid int32, zxid int64) {
	w.mu.Lock()
	var r sentRequest
	for i := range w.sent {
		if w.sent[i].xid == xid {
			r = w.sent[i]
			if i == 0 {
				w.sent = w.sent[1:]
			} else {
				w.sent = append(w.sent[:i], w.sent[i+1:]...)
			}
			break
		}
	}
	// The library sends the watches at once, if there are any.
	w.watched = w.watched || r.op == opSetWatches || time.Since(w.started) > noWatches
	watched := w.watched
	w.mu.Unlock()
	w.session.zxids.saw(zxid, watched)
	if r.at.IsZero() {
		return
	}
	w.session.renewed(r.at)
	if r.op == opClose {
		w.session.farewell()
	}
}

// noWatches is when a connection on which no watches were set again can have had none to set.
const noWatches = 2 * time.Second

// Write sends one frame: the library writes each at once.
func (w *wire) Write(b []byte) (int, error) {
	if w.silent.Load() {
		return 0, net.ErrClosed
	}
	w.mu.Lock()
	now := time.Now()
	if w.started.IsZero() {
		w.started = now
		b = w.connectRequest(b)
	} else if len(b) >= 12 {
		r := sentRequest{int32(binary.BigEndian.Uint32(b[4:])), int32(binary.BigEndian.Uint32(b[8:])), now}
		w.sent = append(w.sent, r)
		if r.op == opSetWatches {
			b = w.setWatches(b)
		}
	}
	w.mu.Unlock()
	n, err := w.Conn.Write(b)
	if err == nil {
		w.wrote(b)
	}
	return n, err
}

// connectRequest asks for the timeout that was wanted at first, not for what greeting made of it.
func (w *wire) connectRequest(b []byte) []byte {
	if len(b) < 20 {
		return b
	}
	b = slices.Clone(b)
	binary.BigEndian.PutUint64(b[8:], uint64(w.session.zxids.last()))
	binary.BigEndian.PutUint32(b[16:], uint32(w.session.driver.timeout.Milliseconds()))
	return b
}

func (w *wire) setWatches(b []byte) []byte {
	if len(b) < 20 {
		return b
	}
	b = slices.Clone(b)
	binary.BigEndian.PutUint64(b[12:], uint64(w.missed))
	return b
}

// wrote reports a create that is on its way.
func (w *wire) wrote(b []byte) {
	if len(b) < 16 || int32(binary.BigEndian.Uint32(b[8:])) != opCreate {
		return
	}
	if n := int(binary.BigEndian.Uint32(b[12:])); n >= 0 && n <= len(b)-16 {
		w.session.createSent(string(b[16 : 16+n]))
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
