package zk

import (
	"context"
	"fmt"
	"time"

	gozk "github.com/go-zookeeper/zk"
)

// request is one that goes past the client library, on the connection that the library keeps. So go those which every
// turn needs. The library spends a goroutine's wait and a write on each; knows watches only as a part of a read, one
// node a request; remembers each watch until it fires; and cannot send two requests one right behind the other.
type request struct {
	op   int32
	body []byte
	done func(in *decoder, err error) // called once, by the goroutine that reads the connection, so it must not block
}

// reply is the answer to a request, as far as it is of interest.
type reply[T any] struct {
	value T
	err   error
}

// newRequest makes a request whose answer comes to a channel, at the latest when the connection ends.
func newRequest[T any](op int32, e encoder, read func(*decoder) (T, error)) (request, <-chan reply[T]) {
	answered := make(chan reply[T], 1)
	return request{op, e.b, func(in *decoder, err error) {
		var v T
		if err == nil {
			if v, err = read(in); in.short {
				err = errForeign
			}
		}
		answered <- reply[T]{v, err}
	}}, answered
}

// answer waits for a reply, or for the end of ctx or of the session.
func answer[T any](ctx context.Context, s *session, replied <-chan reply[T]) (T, error) {
	var none T
	select {
	case r := <-replied:
		return r.value, s.judge(r.err)
	case <-ctx.Done():
		return none, s.given(ctx.Err())
	case <-s.done:
		return none, s.ending()
	}
}

// link returns the connection once there is one that the session may be used on.
func (s *session) link(ctx context.Context) (*wire, error) {
	if err := s.isUp(ctx); err != nil {
		return nil, err
	}
	return s.spoken.Load(), nil
}

func createRequest(prefix string, note []byte, acl []gozk.ACL) (request, <-chan reply[string]) {
	var e encoder
	e.b = make([]byte, 0, len(prefix)+len(note)+64)
	e.string(prefix)
	e.bytes(note)
	e.acl(acl)
	e.int(gozk.FlagEphemeralSequential)
	return newRequest(opCreate, e, func(in *decoder) (string, error) { return in.string(), nil })
}

func syncRequest(path string) (request, <-chan reply[struct{}]) {
	var e encoder
	e.string(path)
	return newRequest(opSync, e, noAnswer)
}

func deleteRequest(path string) (request, <-chan reply[struct{}]) {
	var e encoder
	e.deletion(path)
	return newRequest(opDelete, e, noAnswer)
}

// departRequest writes to a node and deletes it, in one transaction.
func departRequest(path string, data []byte) (request, <-chan reply[struct{}]) {
	var e encoder
	e.b = make([]byte, 0, 2*len(path)+len(data)+64)
	e.operation(opSetData, false)
	e.string(path)
	e.bytes(data)
	e.int(-1) // whatever its version
	e.operation(opDelete, false)
	e.deletion(path)
	e.operation(-1, true)
	return newRequest(opMulti, e, func(in *decoder) (struct{}, error) { return struct{}{}, in.operations() })
}

func (e *encoder) deletion(path string) {
	e.string(path)
	e.int(-1)
}

// operation is the head of one of a transaction.
func (e *encoder) operation(op int32, last bool) {
	e.int(op)
	e.bool(last)
	e.int(-1)
}

// operations reads what became of those of a departure.
func (d *decoder) operations() error {
	for !d.short {
		op, last := d.int(), d.bool()
		d.int()
		switch {
		case last:
			return nil
		case op == opSetData:
			d.take(statBytes)
		case op == opError:
			if err := errorOf(d.int()); err != nil {
				return err
			}
		}
	}
	return nil
}

// watchRequest sets watches, in the way in which clients set them again after a reconnect: what has changed since a
// transaction, or is no more, is told at once, before the answer.
func watchRequest(since int64, paths [aspects][]string, done func(error)) request {
	var e encoder
	e.b = make([]byte, 0, 32+80*(len(paths[ofData])+len(paths[ofComing])+len(paths[ofChildren])))
	e.long(since)
	for _, p := range paths {
		e.strings(p)
	}
	return request{opSetWatches, e.b, func(_ *decoder, err error) { done(err) }}
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

// send puts requests of ours on their way, one right behind the other.
func (w *wire) send(requests ...request) {
	w.mu.Lock()
	if w.ended {
		w.mu.Unlock()
		for _, r := range requests {
			r.done(nil, gozk.ErrConnectionClosed)
		}
		return
	}
	now := time.Now()
	var e encoder
	e.b = w.out
	for _, r := range requests {
		w.lastXid-- // the library's own are positive, or one of a few special ones
		w.sent = append(w.sent, sentRequest{w.lastXid, r.op, now, r.done})
		e.int(int32(8 + len(r.body)))
		e.int(w.lastXid)
		e.int(r.op)
		e.b = append(e.b, r.body...)
	}
	w.out = e.b
	flush := !w.flushing
	w.flushing = true
	w.mu.Unlock()
	if flush {
		w.session.spawn(w.flush) // or the session has ended, and with it the connection
	}
}

// flush writes what send has put there. Whoever sends must not wait for a connection that takes nothing.
func (w *wire) flush() {
	for {
		w.mu.Lock()
		out := w.out
		w.out = nil
		w.flushing = len(out) > 0 && !w.ended
		more := w.flushing
		w.mu.Unlock()
		if !more {
			return
		}
		if _, err := w.Conn.Write(out); err != nil {
			w.Close() // half a frame may have been written
			return
		}
	}
}

// end answers all that will have no answer any more.
func (w *wire) end() {
	w.mu.Lock()
	sent := w.sent
	w.sent, w.ended = nil, true
	w.mu.Unlock()
	for _, r := range sent {
		if r.done != nil {
			r.done(nil, gozk.ErrConnectionClosed)
		}
	}
}

// Close ends the connection, and answers those who wait.
func (w *wire) Close() error {
	err := w.Conn.Close()
	w.end()
	return err
}
