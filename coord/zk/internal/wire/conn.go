// Package wire is the connection to a ZooKeeper server that the client library works on, and the requests that go past
// the library on it.
//
// The library does not say which timeout was granted, nor when a request went out or was answered; the frames do. The
// requests that every turn needs go past the library for four reasons. It spends a waiting goroutine and a write on each
// request. It knows watches only as part of a read, one node per request. It remembers each watch until it fires. And it
// cannot send two requests one right behind the other.
package wire

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

// Session is what a connection belongs to. Its methods are called by whoever reads or writes the connection, so none of
// them may block.
type Session interface {
	// Granted is told what the service says about the session when it accepts a connection, and when that was asked for. It
	// returns the timeout that counts. If it returns an error, the connection is of no use.
	Granted(c *Conn, id Identity, timeout time.Duration, sent time.Time) (time.Duration, error)
	// Answered is told of each reply, when it has arrived: when the request was sent, the service's latest transaction at the
	// time of the reply, and who has answered.
	Answered(c *Conn, sent time.Time, zxid int64, by Authority)
	// Notified is told the news of a node, in the service's order.
	Notified(what gozk.EventType, path string, zxid int64)
	// Proven is called when a connection has been given all credentials again.
	Proven(c *Conn)
	// Failed is told why a connection is of no use any more. snubbed means that the server hung up without a word.
	Failed(server string, err error, snubbed bool)
	// Go runs f on a goroutine of the session, unless the session has ended, and its connections with it.
	Go(f func()) bool
}

// Identity is how the service knows a session.
type Identity struct {
	ID       int64
	Password []byte
}

// Hello is how a connection begins.
type Hello struct {
	Timeout  time.Duration // to ask for
	Patience time.Duration // how long the server has to answer
	Seen     int64         // the server must not be behind this transaction
	Probe    bool          // only find out whether the server still knows the session
	Proofs   int           // how many credentials the library will have to give again
}

// Conn is what the library gets as a connection.
type Conn struct {
	net.Conn
	Server  string
	session Session
	began   time.Time
	hello   Hello
	bye     chan struct{} // closed when the server has confirmed the end of the session
	gone    chan struct{} // closed when there will be no more answers

	// For the one goroutine that reads.
	in      *bufio.Reader
	frame   []byte // the present one
	unread  []byte // the part that the library has not read yet
	greeted bool
	snubbed bool
	idle    time.Duration // how long the server may be silent
	useful  bool          // the present frame answers more than a ping

	delivered atomic.Int64 // when something useful was read last; ns after began

	mu       sync.Mutex
	sent     []sentRequest // unanswered, oldest first
	started  time.Time     // when the connect request was sent
	resumes  int64         // the session that it named; 0: it asked for a new one
	unproven int           // how many credentials the library has yet to give again
	lastXid  int32         // of our own requests
	out      []byte        // those of them yet to be written
	flushing bool          // a goroutine is writing them
	ended    bool          // gone is closed
	silent   atomic.Bool   // nothing may be written any more
}

type sentRequest struct {
	xid, op int32
	at      time.Time
	done    func(*decoder, error) // of our own requests
}

// ErrForeign says that what answers at the address is not ZooKeeper.
var ErrForeign = errors.New("the answer is not ZooKeeper's: check the address, and whether it wants TLS")

// ErrMalformed says that a server's answer makes no sense. Its connection is of no use any more.
var ErrMalformed = errors.New("the server's answer makes no sense")

// ErrTooLong says that an answer is longer than we accept. The connection goes on.
var ErrTooLong = errors.New("the answer is too long")

// ErrBehind says that the session is alive, but that this connection only probed for it, so the server may be behind what
// the session has seen.
var ErrBehind = errors.New("the server knows the session, and may be behind it")

// ErrSlow says that the server could be reached but has not answered in time.
var ErrSlow = errors.New("no answer yet")

// New wraps a connection to a server, for a session.
func New(c net.Conn, server string, h Hello, s Session) *Conn {
	w := &Conn{
		Conn: c, Server: server, session: s, began: time.Now(), hello: h, unproven: h.Proofs,
		bye: make(chan struct{}), gone: make(chan struct{}), lastXid: lowestXid,
	}
	w.in = bufio.NewReaderSize(stream{w}, 32<<10)
	return w
}

// stream is what the server sends. The library's own read deadlines count only the frames that it gets to see.
type stream struct{ c *Conn }

func (s stream) Read(p []byte) (int, error) {
	c := s.c
	if c.greeted {
		if err := c.Conn.SetReadDeadline(time.Now().Add(c.idle)); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(p)
	if c.useful && n > 0 {
		c.delivered.Store(int64(time.Since(c.began)))
	}
	return n, err
}

// Read passes on to the library what the server says, frame by frame, except answers to our own requests and news of nodes:
// all watches are ours. The library gets a frame only once it has arrived completely and been checked: by itself it would
// allocate whatever length it is told, and some answers that are too short would crash the process.
func (c *Conn) Read(p []byte) (int, error) {
	for len(c.unread) == 0 {
		if err := c.nextFrame(); err != nil {
			c.session.Failed(c.Server, err, c.snubbed)
			c.end()
			return 0, err
		}
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

// nextFrame reads the next frame. It hides the zxid from the library, which stores the last one in a way that the race
// detector objects to (lastZxid, in its conn.go). Where the library sends one, connectRequest fills in the right one.
func (c *Conn) nextFrame() error {
	if !c.greeted {
		return c.greeting()
	}
	b, err := c.in.Peek(4)
	if err != nil {
		return err
	}
	c.useful = false
	n := int(int32(binary.BigEndian.Uint32(b)))
	if n < replyHead || n > maxFrame {
		return fmt.Errorf("%w: a frame of %d bytes", ErrMalformed, n)
	}
	if cap(c.frame) > keptFrame {
		c.frame = nil
	}
	c.frame = c.frame[:0]
	if err := c.take(4 + replyHead); err != nil {
		return err
	}
	head := c.frame
	xid := int32(binary.BigEndian.Uint32(head[4:]))
	zxid := int64(binary.BigEndian.Uint64(head[8:]))
	code := int32(binary.BigEndian.Uint32(head[16:]))
	if c.useful = xid != xidNotification && xid != xidPing; c.useful {
		c.delivered.Store(int64(time.Since(c.began)))
	}
	if xid == xidNotification {
		return c.notified(n-replyHead, zxid)
	}
	r, ok := c.asked(xid)
	if !ok {
		return fmt.Errorf("%w: a reply to request %d", ErrMalformed, xid)
	}
	return c.answered(r, n-replyHead, zxid, code)
}

// notified reads news of a node.
func (c *Conn) notified(n int, zxid int64) error {
	if n > maxReply {
		return fmt.Errorf("%w: news of %d bytes", ErrMalformed, n)
	}
	in, err := c.body(n)
	if err != nil {
		return err
	}
	what, _, path := gozk.EventType(in.int()), in.int(), in.string()
	if in.bad {
		return fmt.Errorf("%w: news of %d bytes", ErrMalformed, n)
	}
	c.session.Notified(what, path, zxid)
	return nil
}

// answered reads the rest of a reply.
func (c *Conn) answered(r sentRequest, n int, zxid int64, code int32) error {
	fail := func(err error) error {
		if r.done != nil {
			r.done(nil, gozk.ErrConnectionClosed)
		}
		return err
	}
	tooLong := n > longest(r.op)
	if tooLong && (r.done == nil || longest(r.op) == maxReply) {
		return fail(fmt.Errorf("%w: a reply of %d bytes to operation %d", ErrMalformed, n, r.op))
	}
	if tooLong { // which is possible, if others have put that much there
		if _, err := io.CopyN(io.Discard, c.in, int64(n)); err != nil {
			return fail(err)
		}
		c.session.Answered(c, r.at, zxid, answeredBy(r.op, code))
		r.done(nil, fmt.Errorf("%w: %d bytes, at most %d are taken", ErrTooLong, n, longest(r.op)))
		return nil
	}
	in, err := c.body(n)
	if err != nil {
		return fail(err)
	}
	if r.done == nil && code == 0 && !sound(r.op, *in) {
		return fmt.Errorf("%w: a reply of %d bytes to operation %d", ErrMalformed, n, r.op)
	}
	c.session.Answered(c, r.at, zxid, answeredBy(r.op, code))
	if r.done != nil {
		if r.done(in, errorOf(code)); in.bad {
			return fmt.Errorf("%w: a reply of %d bytes to operation %d", ErrMalformed, n, r.op)
		}
		return nil
	}
	if r.op == opClose {
		close(c.bye)
	}
	binary.BigEndian.PutUint64(c.frame[8:], 0)
	c.unread = c.frame
	return nil
}

// body reads the rest of a frame.
func (c *Conn) body(n int) (*decoder, error) {
	head := len(c.frame)
	err := c.take(n)
	return &decoder{b: c.frame[head:]}, err
}

// take reads a number of bytes. It makes room for them as they arrive, not when they are announced.
func (c *Conn) take(n int) error {
	for n > 0 {
		was := len(c.frame)
		part := min(n, max(was, 4<<10))
		c.frame = slices.Grow(c.frame, part)[:was+part]
		if _, err := io.ReadFull(c.in, c.frame[was:]); err != nil {
			return err
		}
		n -= part
	}
	return nil
}

// greeting reads the answer to the connect request. It tells the library three fifths of the timeout: the library pings at
// a third of what it is told, so now every fifth of the session's timeout, which keeps the leader up to date. A server that
// is silent for twice as long is given up, which leaves time to reach another one.
func (c *Conn) greeting() error {
	head, err := c.in.Peek(4)
	if err != nil {
		if c.snubbed = !errors.Is(err, os.ErrDeadlineExceeded); !c.snubbed {
			err = fmt.Errorf("%w: %w", ErrSlow, err)
		}
		return err
	}
	n := int(int32(binary.BigEndian.Uint32(head)))
	if n < greetingBody || n > greetingBody+16 {
		return ErrForeign
	}
	b := make([]byte, 4+n)
	if _, err := io.ReadFull(c.in, b); err != nil {
		return err
	}
	version, password := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[20:])
	if version != 0 || password != passwordBytes {
		return ErrForeign
	}
	timeout := time.Duration(int32(binary.BigEndian.Uint32(b[8:]))) * time.Millisecond
	if id := int64(binary.BigEndian.Uint64(b[12:])); id != 0 {
		if timeout < leastTimeout {
			return fmt.Errorf("%w: it grants a timeout of %v, and %v is the least", ErrForeign, timeout, leastTimeout)
		}
		if c.resumes != 0 && id != c.resumes {
			return fmt.Errorf("%w: it greets session %#x as %#x", ErrForeign, uint64(c.resumes), uint64(id))
		}
		if c.hello.Probe {
			return ErrBehind
		}
		if timeout, err = c.session.Granted(c, Identity{id, b[24 : 24+passwordBytes]}, timeout, c.started); err != nil {
			return err
		}
		binary.BigEndian.PutUint32(b[8:], uint32((timeout * 3 / 5).Milliseconds()))
		c.idle = timeout * 2 / 5
	}
	c.greeted = true
	c.unread = b
	return nil
}

// asked finds the request that a reply belongs to. Replies come in the order in which requests were written, except those
// to authentication and to pings, which share one xid. The library writes its own requests in order, and so do we, but we
// do not know how the two are interleaved.
func (c *Conn) asked(xid int32) (r sentRequest, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	overtakes := false
	for i, r := range c.sent {
		anyTime := r.op == opAuth || r.xid == xidPing
		if r.xid == xid && (anyTime || !overtakes) {
			if i == 0 {
				c.sent[0] = sentRequest{}
				c.sent = c.sent[1:]
			} else {
				c.sent = slices.Delete(c.sent, i, i+1)
			}
			return r, true
		}
		overtakes = overtakes || !anyTime && (r.xid < 0) == (xid < 0)
	}
	return sentRequest{}, false
}

// Write sends one frame: the library writes each frame with one call.
func (c *Conn) Write(b []byte) (int, error) {
	if c.silent.Load() {
		return 0, net.ErrClosed
	}
	c.mu.Lock()
	now := time.Now()
	proven := false
	if c.started.IsZero() {
		c.started = now
		b = c.connectRequest(b)
	} else if len(b) >= 12 {
		r := sentRequest{xid: int32(binary.BigEndian.Uint32(b[4:])), op: int32(binary.BigEndian.Uint32(b[8:])), at: now}
		c.sent = append(c.sent, r)
		if r.op == opAuth && c.unproven > 0 {
			c.unproven--
			proven = c.unproven == 0
		}
	}
	c.mu.Unlock()
	n, err := c.Conn.Write(b)
	if proven && err == nil {
		c.session.Proven(c)
	}
	return n, err
}

// IsProven reports whether all credentials have been given again.
func (c *Conn) IsProven() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unproven == 0
}

// connectRequest asks for the session's timeout, not for the shorter one that greeting tells the library.
func (c *Conn) connectRequest(b []byte) []byte {
	if len(b) < 20 {
		return b
	}
	b = slices.Clone(b)
	if len(b) >= 28 {
		c.resumes = int64(binary.BigEndian.Uint64(b[20:]))
	}
	if !c.hello.Probe {
		binary.BigEndian.PutUint64(b[8:], uint64(c.hello.Seen))
	}
	binary.BigEndian.PutUint32(b[16:], uint32(c.hello.Timeout.Milliseconds()))
	return b
}

// Waiting returns for how long there has been no answer though one was due. Pings do not count: a server that has lost its
// leader goes on answering them. While a long answer, or many, are arriving, the time starts over with each part.
func (c *Conn) Waiting(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.sent {
		if r.xid != xidPing {
			since := max(r.at.Sub(c.began), time.Duration(c.delivered.Load()))
			return now.Sub(c.began) - since
		}
	}
	return 0
}

// Awaits reports whether a request is under way that is answered by that authority or a greater one.
func (c *Conn) Awaits(by Authority) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.sent, func(r sentRequest) bool { return authority(r.op) >= by })
}

// SetReadDeadline makes the library wait less for the first frame; see stream for the others. By itself it would wait ten
// times as long as for others, so one frozen server would cost the session although the others are healthy.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if c.greeted {
		return nil
	}
	if limit := time.Now().Add(c.hello.Patience); t.IsZero() || t.After(limit) {
		t = limit
	}
	return c.Conn.SetReadDeadline(t)
}

// end fails all requests that will get no answer any more.
func (c *Conn) end() {
	c.mu.Lock()
	sent := c.sent
	if c.sent = nil; !c.ended {
		c.ended = true
		close(c.gone)
	}
	c.mu.Unlock()
	for _, r := range sent {
		if r.done != nil {
			r.done(nil, gozk.ErrConnectionClosed)
		}
	}
}

// Close ends the connection, and fails all requests that wait for an answer.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.end()
	return err
}

// Silence ends the connection without another word to the server.
func (c *Conn) Silence() {
	c.silent.Store(true)
	c.Conn.Close()
}

// Bye is closed when the server has confirmed the end of the session.
func (c *Conn) Bye() <-chan struct{} { return c.bye }

// Gone is closed when there will be no more answers.
func (c *Conn) Gone() <-chan struct{} { return c.gone }
