package wire

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	gozk "github.com/go-zookeeper/zk"
)

// What we use of the protocol. A frame begins with its length.
const (
	xidNotification = -1
	xidPing         = -2
	lowestXid       = -100 // of the special ones

	opCreate          = 1
	opDelete          = 2
	opSetData         = 5
	opSync            = 9
	opPing            = 11
	opExists          = 3
	opGetData         = 4
	opGetACL          = 6
	opSetACL          = 7
	opGetChildren2    = 12
	opCheck           = 13
	opMulti           = 14
	opCreate2         = 15
	opAuth            = 100
	opRemoveWatches   = 18
	opCreateContainer = 19
	opSetWatches      = 101
	opGetEphemerals   = 103
	opClose           = -11

	statBytes = 68

	passwordBytes = 16
	greetingBody  = 20 + passwordBytes // protocol version, timeout, session, password; newer servers add a byte
	replyHead     = 16                 // xid, zxid, error
)

// What we accept. A server itself accepts at most a megabyte, unless somebody has set jute.maxbuffer; only lists can grow
// without limit.
const (
	leastTimeout = 100 * time.Millisecond // a shorter session would have no time for anything but its renewal
	maxFrame     = 256 << 20              // whatever is longer than the following is not kept
	maxList      = 32 << 20               // half a million names, and
	maxNames     = 1 << 20                // no more than that, however short they are
	maxData      = 1 << 20
	maxReply     = 1<<20 + 4<<10 // to anything else: paths
	keptFrame    = 1 << 20       // a connection keeps this much memory for the next frame
)

// longest is how long the answer to an operation may be.
func longest(op int32) int {
	switch op {
	case opGetChildren2, opGetEphemerals:
		return maxList
	case opGetData:
		return maxData + 4 + statBytes
	}
	return maxReply
}

// sound reports whether the library can read an answer to one of its requests.
func sound(op int32, in decoder) bool {
	switch op {
	case opCreate, opSync:
		in.string()
	case opCreateContainer:
		if len(in.b) > 0 { // servers before 3.5 send nothing
			in.string()
		}
	case opExists, opSetData, opSetACL:
		in.next(statBytes)
	case opGetACL:
		for range in.count(12) {
			in.int()
			in.string()
			in.string()
		}
		in.next(statBytes)
	case opGetData:
		in.bytes()
		in.next(statBytes)
	case opGetChildren2:
		in.strings()
		in.next(statBytes)
	case opMulti:
		in.results()
	case opDelete, opAuth, opClose, opPing: // nothing is read
	default:
		return false
	}
	return !in.bad
}

// Authority is who has answered a request. A greater one includes the others.
type Authority int

const (
	Server   Authority = iota // a server, perhaps all by itself
	Leader                    // the one that leads, or has led
	Majority                  // the leader, after a majority of the servers has agreed
)

// authority says who answers a request if all is well.
func authority(op int32) Authority {
	switch op {
	case opCreate, opDelete, opSetData, opMulti, opCreate2, opCreateContainer:
		return Majority
	case opSync:
		return Leader
	}
	return Server
}

// answeredBy says who has given an answer. A majority also agrees to a write that fails because of what it finds. But a
// server may be set up to say by itself that a right is missing (enableEagerACLCheck).
func answeredBy(op, code int32) Authority {
	switch errorOf(code) {
	case nil:
		return authority(op)
	case gozk.ErrNoNode, gozk.ErrNodeExists, gozk.ErrNotEmpty, gozk.ErrBadVersion:
		if authority(op) == Majority {
			return Majority
		}
	}
	return Server
}

// Request is a request that goes past the library.
type Request struct {
	op   int32
	body []byte
	done func(in *decoder, err error) // called once, by the goroutine that reads the connection, so it must not block
}

// Then returns the request with f called as well when there is an answer.
func (r Request) Then(f func()) Request {
	done := r.done
	r.done = func(in *decoder, err error) {
		done(in, err)
		f()
	}
	return r
}

// Reply is the answer to a request.
type Reply[T any] struct {
	Value T
	Err   error
}

// newRequest makes a request whose answer arrives on a channel, at the latest when the connection ends.
func newRequest[T any](op int32, e encoder, read func(*decoder) (T, error)) (Request, <-chan Reply[T]) {
	replied := make(chan Reply[T], 1)
	return Request{op, e.b, func(in *decoder, err error) {
		var v T
		if err == nil {
			if v, err = read(in); in.bad {
				err = ErrMalformed
			}
		}
		replied <- Reply[T]{v, err}
	}}, replied
}

// Send sends requests of ours, one right behind the other, without waiting until they are written.
func (c *Conn) Send(requests ...Request) {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		for _, r := range requests {
			r.done(nil, gozk.ErrConnectionClosed)
		}
		return
	}
	now := time.Now()
	e := encoder{c.out}
	for _, r := range requests {
		if c.lastXid == math.MinInt32 {
			c.lastXid = lowestXid
		}
		c.lastXid-- // the library's own are positive, or one of a few special ones
		c.sent = append(c.sent, sentRequest{c.lastXid, r.op, now, r.done})
		e.int(int32(8 + len(r.body)))
		e.int(c.lastXid)
		e.int(r.op)
		e.b = append(e.b, r.body...)
	}
	c.out = e.b
	flush := !c.flushing
	c.flushing = true
	c.mu.Unlock()
	if flush {
		c.session.Go(c.flush)
	}
}

// flush writes what Send has queued. A sender must not wait for a connection that accepts nothing.
func (c *Conn) flush() {
	for {
		c.mu.Lock()
		out := c.out
		c.out = nil
		c.flushing = len(out) > 0 && !c.ended
		more := c.flushing
		c.mu.Unlock()
		if !more {
			return
		}
		if _, err := c.Conn.Write(out); err != nil {
			c.Close() // half a frame may have been written
			return
		}
	}
}

// Create makes a node. The reply is its path, which has a number at its end if the service was to add one.
func Create(n Node, acl []gozk.ACL) (Request, <-chan Reply[string]) {
	e := encoder{make([]byte, 0, len(n.Path)+len(n.Data)+64)}
	e.node(n, acl)
	return newRequest(opCreate, e, func(in *decoder) (string, error) {
		path := in.string()
		in.bad = in.bad || !named(path, n)
		return path, nil
	})
}

// Listing is what a directory holds, in no particular order.
type Listing struct {
	Names []string
	Born  int64 // the transaction that made the directory
	Last  int64 // the last one that changed what is in it
	AsOf  int64 // it shows what happened up to this transaction
	Bytes int   // how long the answer was
	By    *Conn // who asked for it, if it says so
}

// List lists a directory and, if watched, asks to be told of its next change. The reply is no older than transaction seen.
func List(dir string, watched bool, seen int64) (Request, <-chan Reply[*Listing]) {
	var e encoder
	e.string(dir)
	e.bool(watched)
	return newRequest(opGetChildren2, e, func(in *decoder) (*Listing, error) {
		if n := in.announced(); n > maxNames {
			return nil, fmt.Errorf("%w: %d names, at most %d are taken", ErrTooLong, n, maxNames)
		}
		l := &Listing{Bytes: len(in.b), Names: in.strings(), Born: in.long()}
		in.next(statBytes - 2*8)
		l.Last = in.long() // a stat ends with it
		in.bad = in.bad || l.Born < 0 || l.Last < 0
		l.AsOf = max(l.Last, seen)
		return l, nil
	})
}

// Data is what a node says.
type Data struct {
	Bytes   []byte
	Last    int64 // the transaction that wrote it
	Version int32 // how often it has been written since the node was made
}

// Get reads a node's data. For more than a megabyte of it the error is ErrTooLong.
func Get(path string) (Request, <-chan Reply[Data]) {
	var e encoder
	e.string(path)
	e.bool(false)
	return newRequest(opGetData, e, func(in *decoder) (Data, error) {
		d := Data{Bytes: in.bytes()}
		in.long() // the transaction that made the node
		d.Last = in.long()
		in.next(2 * 8) // when both were
		d.Version = in.int()
		in.next(statBytes - 4*8 - 4)
		in.bad = in.bad || d.Last < 0
		return d, nil
	})
}

// Sync makes the server catch up with the leader.
func Sync(path string) (Request, <-chan Reply[struct{}]) {
	var e encoder
	e.string(path)
	return newRequest(opSync, e, noAnswer)
}

// Delete deletes a node, whatever its version.
func Delete(path string) (Request, <-chan Reply[struct{}]) {
	var e encoder
	e.deletion(path)
	return newRequest(opDelete, e, noAnswer)
}

// Node is a node to be made.
type Node struct {
	Path  string
	Data  []byte
	Flags int32
}

// CreateAll makes all of the nodes, one after the other, or none. The reply is the path of the last one.
func CreateAll(nodes []Node, acl []gozk.ACL) (Request, <-chan Reply[string]) {
	var e encoder
	for _, n := range nodes {
		op := int32(opCreate)
		if n.Flags == gozk.FlagContainer {
			op = opCreateContainer
		}
		e.operation(op, false)
		e.node(n, acl)
	}
	e.operation(-1, true)
	last := nodes[len(nodes)-1]
	return newRequest(opMulti, e, func(in *decoder) (string, error) {
		made, failure := in.results()
		if failure != 0 {
			return "", errorOf(failure)
		}
		in.bad = in.bad || !named(made, last)
		return made, nil
	})
}

// named reports whether the service can have given a node this path.
func named(path string, n Node) bool {
	number, ok := strings.CutPrefix(path, n.Path)
	if n.Flags != gozk.FlagEphemeralSequential {
		return ok && number == ""
	}
	return ok && len(number) >= 10 && len(number) <= 11 && !strings.Contains(number, "/")
}

// Check asks a majority of the servers whether a node is there, and changes nothing. done is called when there is an
// answer, whatever it is.
func Check(path string, done func(error)) Request {
	e := encoder{make([]byte, 0, len(path)+32)}
	e.operation(opCheck, false)
	e.string(path)
	e.int(-1) // whatever its version
	e.operation(-1, true)
	return Request{opMulti, e.b, func(_ *decoder, err error) { done(err) }}
}

// Watch sets watches in the way that clients set them again after a reconnect: the server reports at once, before done is
// called, whatever has changed or gone since a transaction. paths are those to watch for data, for coming into being, and
// for children.
func Watch(since int64, paths [3][]string, done func(error)) Request {
	e := encoder{make([]byte, 0, 32+80*(len(paths[0])+len(paths[1])+len(paths[2])))}
	e.long(since)
	for _, p := range paths {
		e.strings(p)
	}
	return Request{opSetWatches, e.b, func(_ *decoder, err error) { done(err) }}
}

// Unwatch takes back the watches on a path: those for children, or those for data and for coming into being. Servers before
// 3.5 refuse it and hang up. done is called when there is an answer, whatever it is.
func Unwatch(path string, children bool, done func(error)) Request {
	e := encoder{make([]byte, 0, len(path)+8)}
	e.string(path)
	if children {
		e.int(1)
	} else {
		e.int(2)
	}
	return Request{opRemoveWatches, e.b, func(_ *decoder, err error) { done(err) }}
}

// Ephemerals lists the nodes of the session below a path. Servers before 3.6 refuse it.
func Ephemerals(below string, done func(paths []string, err error)) Request {
	var e encoder
	e.string(below)
	return Request{opGetEphemerals, e.b, func(in *decoder, err error) {
		var paths []string
		if err == nil {
			if paths = in.strings(); in.bad {
				err = ErrMalformed
			}
		}
		done(paths, err)
	}}
}

func noAnswer(*decoder) (struct{}, error) { return struct{}{}, nil }

// errorOf names the errors of ZooKeeper's protocol as the library does.
func errorOf(code int32) error {
	if code == 0 {
		return nil
	}
	if err, ok := errorCodes[code]; ok {
		return err
	}
	return fmt.Errorf("unknown error: %d", code)
}

var errorCodes = map[int32]error{
	-8: gozk.ErrBadArguments, -100: gozk.ErrAPIError, -101: gozk.ErrNoNode, -102: gozk.ErrNoAuth, -103: gozk.ErrBadVersion,
	-108: gozk.ErrNoChildrenForEphemerals, -110: gozk.ErrNodeExists, -111: gozk.ErrNotEmpty, -112: gozk.ErrSessionExpired,
	-114: gozk.ErrInvalidACL, -115: gozk.ErrAuthFailed, -116: gozk.ErrClosing, -118: gozk.ErrSessionMoved,
}

// encoder writes what a request says, in ZooKeeper's own encoding.
type encoder struct{ b []byte }

func (e *encoder) int(v int32)  { e.b = binary.BigEndian.AppendUint32(e.b, uint32(v)) }
func (e *encoder) long(v int64) { e.b = binary.BigEndian.AppendUint64(e.b, uint64(v)) }

func (e *encoder) bool(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

func (e *encoder) string(s string) {
	e.int(int32(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) bytes(v []byte) {
	e.int(int32(len(v)))
	e.b = append(e.b, v...)
}

func (e *encoder) strings(all []string) {
	e.int(int32(len(all)))
	for _, s := range all {
		e.string(s)
	}
}

func (e *encoder) acl(all []gozk.ACL) {
	e.int(int32(len(all)))
	for _, a := range all {
		e.int(a.Perms)
		e.string(a.Scheme)
		e.string(a.ID)
	}
}

func (e *encoder) node(n Node, acl []gozk.ACL) {
	e.string(n.Path)
	e.bytes(n.Data)
	e.acl(acl)
	e.int(n.Flags)
}

func (e *encoder) deletion(path string) {
	e.string(path)
	e.int(-1)
}

// operation writes the head of one operation of a transaction.
func (e *encoder) operation(op int32, last bool) {
	e.int(op)
	e.bool(last)
	e.int(-1)
}

// decoder reads an answer. Whatever is missing at its end reads as zero.
type decoder struct {
	b   []byte
	bad bool // something is missing, or makes no sense
}

func (d *decoder) next(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.bad, d.b = true, nil
		return nil
	}
	part := d.b[:n]
	d.b = d.b[n:]
	return part
}

func (d *decoder) int() int32 {
	if b := d.next(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) long() int64 {
	if b := d.next(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (d *decoder) string() string { return string(d.next(int(d.int()))) }

// bytes returns a copy; a length of -1 stands for none.
func (d *decoder) bytes() []byte {
	n := d.int()
	if n == -1 {
		return nil
	}
	return bytes.Clone(d.next(int(n)))
}

// count reads how many items follow, each of which takes at least so many bytes. The library takes -1 for four billion.
func (d *decoder) count(least int) int {
	n := int(d.int())
	if n < 0 || n > len(d.b)/least {
		d.bad, d.b = true, nil
		return 0
	}
	return n
}

// announced is how many items are about to follow, by the server's word.
func (d *decoder) announced() int {
	if len(d.b) < 4 {
		return 0
	}
	return int(int32(binary.BigEndian.Uint32(d.b)))
}

// strings reads names, or paths: none is empty.
func (d *decoder) strings() []string {
	n := d.count(4 + 1)
	if d.bad = d.bad || n > maxNames; n == 0 || d.bad {
		return nil
	}
	all := make([]string, 0, n)
	for range n {
		s := d.string()
		if d.bad = d.bad || s == ""; d.bad {
			return nil
		}
		all = append(all, s)
	}
	return all
}

// results reads the answer to a transaction: the path of what was made last, and the first error in it.
func (d *decoder) results() (made string, failure int32) {
	for !d.bad {
		op, over := d.int(), d.next(1)
		d.int()
		if d.bad || over[0] != 0 {
			break
		}
		switch op {
		case -1:
			failure = cmp.Or(failure, d.int())
		case opCreate:
			made = d.string()
		case opCreate2:
			made = d.string()
			d.next(statBytes)
		case opSetData:
			d.next(statBytes)
		case opCheck, opDelete:
		default:
			d.bad = true
		}
	}
	return made, failure
}
