package zk

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	gozk "github.com/go-zookeeper/zk"
)

// wire is a connection to a server, as the client library gets it, with an eye on what passes. The library tells
// neither the timeout that was granted, nor when a request went out or was answered; the frames do.
type wire struct {
	net.Conn
	session *session
	addr    string

	// Of the one goroutine that reads.
	in      *bufio.Reader
	head    [4 + replyHead]byte
	first   []byte // what the library has not read yet of what was changed for it
	rest    int    // what it has not read yet of the present frame
	greeted bool
	probe   bool // it is to find out only whether the service still knows the session

	mu       sync.Mutex
	sent     []sentRequest // unanswered, the oldest first
	started  time.Time     // when the connect request was sent
	unproven int           // how many credentials the library has yet to give again
	lastXid  int32         // of our own requests
	out      []byte        // of those, what is to be written
	flushing bool          // by a goroutine that does
	ended    bool          // there will be no answers any more
	silent   atomic.Bool   // nothing may be written any more
}

type sentRequest struct {
	xid, op int32
	at      time.Time
	done    func(*decoder, error) // of our own requests
}

// credentials are what the service knows a session by.
type credentials struct {
	id       int64
	password []byte
}

// What is known of the protocol. A frame begins with its length.
const (
	xidNotification = -1
	lowestXid       = -100 // of those with a meaning

	opCreate       = 1
	opDelete       = 2
	opSetData      = 5
	opSync         = 9
	opGetChildren2 = 12
	opMulti        = 14
	opAuth         = 100
	opSetWatches   = 101
	opClose        = -11
	opError        = -1 // of one within a multi

	statBytes = 68

	greetingBody = 36        // protocol version, timeout, session, password of 16 bytes; newer servers add a byte
	replyHead    = 16        // xid, zxid, error
	maxFrame     = 256 << 20 // a list of some millions of names
)

// errForeign: whoever answers at the address is no ZooKeeper.
var errForeign = errors.New("the answer is not ZooKeeper's: check the address, and whether it wants TLS")

// errBehind: the session lives, and must not be used by a connection that was not asked what it has seen.
var errBehind = errors.New("the server knows the session, and may be behind it")

func newWire(c net.Conn, addr string, s *session) *wire {
	w := &wire{Conn: c, addr: addr, session: s, in: bufio.NewReaderSize(c, 32<<10), lastXid: lowestXid, probe: s.isInDoubt()}
	if s.introduced.Load() {
		w.unproven = len(s.driver.auth)
	}
	return w
}

// Read hands on what the server says to the library, frame by frame. Answers to our own requests are not for it, and
// neither is news of nodes: all watches are ours.
func (w *wire) Read(p []byte) (int, error) {
	for len(w.first) == 0 && w.rest == 0 {
		if err := w.nextFrame(); err != nil {
			w.session.noteTrouble(w.addr, err)
			w.end()
			return 0, err
		}
	}
	if len(w.first) > 0 {
		n := copy(p, w.first)
		w.first = w.first[n:]
		return n, nil
	}
	n, err := w.in.Read(p[:min(len(p), w.rest)])
	w.rest -= n
	if err != nil {
		w.end()
	}
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
	head := w.head[:]
	if _, err := io.ReadFull(w.in, head); err != nil {
		return err
	}
	xid := int32(binary.BigEndian.Uint32(head[4:]))
	zxid := int64(binary.BigEndian.Uint64(head[8:]))
	if xid == xidNotification {
		in, err := w.body(n - replyHead)
		if err == nil {
			w.session.notified(in, zxid)
		}
		return err
	}
	if r := w.answered(xid, zxid); r.done != nil {
		in, err := w.body(n - replyHead)
		if err != nil {
			r.done(nil, gozk.ErrConnectionClosed)
			return err
		}
		r.done(in, errorOf(int32(binary.BigEndian.Uint32(head[16:]))))
		return nil
	}
	binary.BigEndian.PutUint64(head[8:], 0)
	w.first, w.rest = head, n-replyHead
	return nil
}

// body reads the rest of a frame that is not for the library.
func (w *wire) body(n int) (*decoder, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(w.in, b)
	return &decoder{b: b}, err
}

// greeting takes the answer to the connect request. The library is told three fifths of the timeout: it pings at a
// third of what it knows and gives a connection up at two thirds of it, so now at 0.2 and 0.4 of the session's
// timeout. That leaves time to reach another server, and keeps the leader up to date: see keptFor.
func (w *wire) greeting() error {
	head, err := w.in.Peek(4)
	if err != nil {
		w.session.snubbed.Store(!errors.Is(err, os.ErrDeadlineExceeded))
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
		if w.probe {
			return errBehind
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
func (w *wire) answered(xid int32, zxid int64) sentRequest {
	w.mu.Lock()
	var r sentRequest
	for i := range w.sent {
		if w.sent[i].xid == xid {
			r = w.sent[i]
			if i == 0 {
				w.sent[0] = sentRequest{}
				w.sent = w.sent[1:]
			} else {
				w.sent = slices.Delete(w.sent, i, i+1)
			}
			break
		}
	}
	w.mu.Unlock()
	w.session.zxids.saw(zxid)
	if !r.at.IsZero() {
		w.session.renewed(r.at)
	}
	if r.op == opClose {
		w.session.farewell()
	}
	return r
}

// Write sends one frame: the library writes each at once.
func (w *wire) Write(b []byte) (int, error) {
	if w.silent.Load() {
		return 0, net.ErrClosed
	}
	w.mu.Lock()
	now := time.Now()
	proven := false
	if w.started.IsZero() {
		w.started = now
		b = w.connectRequest(b)
	} else if len(b) >= 12 {
		r := sentRequest{xid: int32(binary.BigEndian.Uint32(b[4:])), op: int32(binary.BigEndian.Uint32(b[8:])), at: now}
		w.sent = append(w.sent, r)
		if r.op == opAuth && w.unproven > 0 {
			w.unproven--
			proven = w.unproven == 0
		}
	}
	w.mu.Unlock()
	n, err := w.Conn.Write(b)
	if proven && err == nil {
		w.session.usable(w)
	}
	return n, err
}

func (w *wire) isProven() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unproven == 0
}

// connectRequest asks for the timeout that was wanted at first, not for what greeting made of it.
func (w *wire) connectRequest(b []byte) []byte {
	if len(b) < 20 {
		return b
	}
	b = slices.Clone(b)
	if !w.probe {
		binary.BigEndian.PutUint64(b[8:], uint64(w.session.zxids.last()))
	}
	binary.BigEndian.PutUint32(b[16:], uint32(w.session.driver.timeout.Milliseconds()))
	return b
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
