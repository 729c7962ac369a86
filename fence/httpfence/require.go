package httpfence

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
)

// Line is for a Require where all requests are for one line. If the line depends on the request, write
//
//	func(r *http.Request) string { return "orders/" + r.PathValue("id") }
func Line(name string) func(*http.Request) string {
	return func(*http.Request) string { return name }
}

// Require lets a request through to next if it has a token for its line that is not stale. Otherwise it answers the
// request itself, as the package comment says. Requests with the same token are let through side by side. It is the
// server that says which line a request is for; a token of another line is worth nothing.
//
// The fence remembers the tokens. Handlers that write to the same place must share one Require: otherwise one that is
// paused can still write after a newer one.
//
// Whoever gets as far as Require may name any token, and the greatest shuts out all others for good. So next is too late to
// ask who somebody is: have requests authenticated before Require.
func Require(f fence.Fence, line func(*http.Request) string, next http.Handler) http.Handler {
	return &required{fence: f, line: line, next: next}
}

type required struct {
	fence fence.Fence
	line  func(*http.Request) string
	next  http.Handler
	gate  gate
}

type stampKey struct{}

// Stamp returns the stamp that the request was let through with, from a context that Require gave to a handler.
func Stamp(ctx context.Context) (s fence.Stamp, ok bool) {
	s, ok = ctx.Value(stampKey{}).(fence.Stamp)
	return s, ok
}

func (q *required) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	line := q.line(r)
	s, there, err := find(r.Header, line)
	switch {
	case err != nil:
		http.Error(w, Header+": "+err.Error(), http.StatusBadRequest)
		return
	case !there:
		http.Error(w, Header+": no token for the line of this request: take the lock, and send line=NAME&token=NUMBER",
			http.StatusPreconditionRequired)
		return
	}
	v, err := q.gate.enter(r.Context(), line, s)
	if err == nil {
		defer v.leave()
		err = q.pass(v)
	}
	switch {
	case errors.Is(err, coord.ErrStale):
		http.Error(w, Header+": the token is stale: somebody else holds the lock by now", http.StatusPreconditionFailed)
	case err != nil: // its text may tell of the fence's internals
		http.Error(w, Header+": whether the token is stale cannot be told now: try again", http.StatusServiceUnavailable)
	default:
		defer q.cutWhenStale(v.ctx, w)()
		q.next.ServeHTTP(w, r.WithContext(context.WithValue(v.ctx, stampKey{}, s)))
	}
}

// pass asks the fence first: whom it does not let through, or cannot judge, ends nobody's request.
func (q *required) pass(v *visit) error {
	err := q.fence.Pass(v.ctx, v.line, v.stamp)
	switch {
	case v.ctx.Err() != nil: // whatever the fence says to that
		return context.Cause(v.ctx)
	case err != nil:
		return err
	}
	return v.admit()
}

// cutWhenStale ends the handler's reads and writes when a newer request has come: a client that is stopped sends no
// more of its body and takes no more of the answer, and the handler would wait for it. A second is enough for a client
// that does take the answer.
func (q *required) cutWhenStale(ctx context.Context, w http.ResponseWriter) (end func()) {
	c, done := http.NewResponseController(w), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		if errors.Is(context.Cause(ctx), coord.ErrStale) {
			_ = c.SetReadDeadline(time.Unix(1, 0)) // where it cannot be set, the handler has to take care itself
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		}
	})
	return func() {
		if !stop() {
			<-done // not later: the connection may be another request's by then, and the server has reset its deadlines
		}
	}
}
