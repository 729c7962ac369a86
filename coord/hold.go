package coord

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Hold is what you have while it is your turn.
type Hold struct {
	acquired *acquired
	session  *session
	outer    *Hold   // the hold this one is nested in, or nil
	asks     string  // of a nested hold: the kind that was asked for
	shared   *shared // the node that it is the hold of, or a turn of; nil: it is neither
	nth      Token   // which turn of a shared node it is, or is nested in; 0: none

	ctx    context.Context
	cancel context.CancelCauseFunc
	end    atomic.Pointer[error] // why it ended; nil: it has not
	until  time.Time             // until when it was surely held; written once, as it ends

	mu     sync.Mutex          // taken while it ends: whoever finds it ended finds everything inside ended as well
	inside map[any]func(error) // what ends with it; guarded by mu
	begun  bool                // observers were told that it was granted; guarded by mu
	untold bool                // it was lost before that; guarded by mu

	place   driver.Place
	since   time.Time
	overdue time.Time   // when it ends by itself; zero: never
	ending  *time.Timer // gives the line back then

	joinedAs  string                 // the kind that it joined with
	grantedAs string                 // the kind that announces it; "": it needs no announcing
	openAs    atomic.Pointer[string] // the kind that the node was last asked to take on, while the outcome is open
	left      chan struct{}          // closed when its owner is done with it

	changing chan struct{}      // capacity 1: taken while the node is amended or leaves
	alone    bool               // nobody at all was ahead when the turn came; guarded by changing
	unwatch  context.CancelFunc // ends the present watch over the node; guarded by changing
	timer    *time.Timer        // starts it

	noting *time.Timer // has it say since when it is held; nil: it does not
	says   remarks     // beside its data; but for the rank, guarded by changing
}

// acquired is what a hold needs to know of the call that it came from.
type acquired struct {
	client *Client
	tells  *teller
	line   string
	rule   Rule
}

// Why a hold was lost.
var (
	lostDeadline = fmt.Errorf("%w: the service was not heard from in time", ErrLost)
	lostSession  = fmt.Errorf("%w: the session has ended", ErrLost)
	lostOverdue  = error(&overdueHold{})
	lostNode     = fmt.Errorf("%w: the node has gone, and perhaps the session with it", ErrLost)
	lostRemoved  = error(&removedHold{})
)

// removedHold is the end of a hold whose node was removed.
type removedHold struct{}

func (*removedHold) Error() string   { return ErrLost.Error() + ": the node was removed" }
func (*removedHold) Unwrap() []error { return []error{ErrLost, ErrRemoved} }

// overdueHold is the end of a hold that may not last longer.
type overdueHold struct{}

func (*overdueHold) Error() string {
	return ErrLost.Error() + ": it has lasted for as long as MaxHold allows"
}
func (*overdueHold) Unwrap() []error { return []error{ErrLost, context.DeadlineExceeded} }

// closedHold is the end of a hold whose client was closed: that is a loss as well.
type closedHold struct{}

func (*closedHold) Error() string   { return ErrClosed.Error() }
func (*closedHold) Unwrap() []error { return []error{ErrClosed, ErrLost} }

// errBeside says that another hold of the session must end first.
var errBeside = errors.New("another hold has not ended")

func newHold(a *acquire, s *session, place driver.Place, alone bool, grantedAs string) (*Hold, error) {
	h := &Hold{acquired: &acquired{a.Client, a.tells, a.line, a.rule}, session: s, place: place, since: time.Now(), alone: alone,
		joinedAs: a.entry.Kind, grantedAs: grantedAs, shared: a.shared, says: a.says.ofHold(), changing: make(chan struct{}, 1), left: make(chan struct{})}
	most := a.maxHold
	if a.shared != nil { // it is for the turns
		most = 0
	}
	h.start(h.heldIn(context.WithoutCancel(a.user)), most)
	h.timer = time.AfterFunc(watchAfter, h.startWatch)
	if a.notes {
		h.noting = time.AfterFunc(noteAfter, h.note)
	}
	if err := s.admit(h); err != nil {
		h.finish(err)
		return nil, err
	}
	h.begin(a)
	h.expires()
	return h, nil
}

// start makes the hold's context, which lasts for at most so long; zero: for ever.
func (h *Hold) start(base context.Context, most time.Duration) {
	if most > 0 {
		h.overdue = time.Now().Add(most)
	}
	ctx, cancel := context.WithCancelCause(base)
	h.ctx, h.cancel = h.withDeadline(ctx), cancel
}

// withDeadline returns a context that ends with ctx, or when the hold ends by itself. Whoever calls it ends ctx: that frees both.
func (h *Hold) withDeadline(ctx context.Context) context.Context {
	at := h.endsBy()
	if at.IsZero() {
		return ctx
	}
	limited, stop := context.WithDeadlineCause(ctx, at, lostOverdue)
	_ = stop
	return limited
}

// endsBy is when the hold, or one that it is nested in, ends by itself; zero: never.
func (h *Hold) endsBy() (at time.Time) {
	for ; h != nil; h = h.outer {
		if !h.overdue.IsZero() && (at.IsZero() || h.overdue.Before(at)) {
			at = h.overdue
		}
	}
	return at
}

// expires has the line given back when the hold has lasted for as long as it may.
func (h *Hold) expires() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if why := h.end.Load(); h.overdue.IsZero() || why != nil && *why != lostOverdue {
		return
	}
	h.ending = time.AfterFunc(time.Until(h.overdue), func() {
		if h.takeOff() {
			h.leave()
		}
	})
}

// begin tells observers that the turn has come. If it was lost meanwhile they hear that afterwards.
func (h *Hold) begin(a *acquire) {
	if !h.isTold() {
		return
	}
	a.tells.granted(h.since, h.Node, h.since.Sub(a.since))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.begun = true
	if h.untold {
		a.tells.lost(h.until, h.Node, *h.end.Load())
	}
}

// Context returns a context that ends when the hold does: before anyone else can be let in, except where the package
// comment says otherwise. Its cause is ErrLost, ErrReleased or ErrClosed. It carries the values of the context that was
// given to Lock, but does not end with it: that context governed the wait.
func (h *Hold) Context() context.Context { return h.ctx }

// With returns a context that ends with ctx or with the hold, whichever ends first.
func (h *Hold) With(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(h.heldIn(ctx))
	key := new(byte)
	h.keep(key, cancel)
	return h.withDeadline(ctx), func() {
		h.forget(key)
		cancel(nil)
	}
}

// Token returns the fencing token. Each hold of a line has a greater one than all holds before it.
func (h *Hold) Token() Token { return h.place.Node().Token<<TurnBits | h.nth }

// Node returns the hold's node in the line. Its Kind is what the line is held as: see Amend.
func (h *Hold) Node() Node {
	n := h.acquired.client.shown(h.place.Node())
	n.Token |= h.nth
	if open := h.outermost().openAs.Load(); open != nil {
		n.Kind = *open
	}
	n.Holds = h.Err() == nil
	return n
}

// Err returns nil while the line is surely held, and after that the reason why it no longer is. It reads the clock at
// each call, so it is right even just after a long pause, when the context may not have ended yet.
func (h *Hold) Err() error {
	if h.end.Load() == nil {
		switch {
		case h.outer != nil:
			if why := h.outer.Err(); why != nil {
				h.loseWithOuter(why)
			}
		case h.session.ended():
			h.finish(h.session.lost())
		case !h.session.alive():
			h.finish(lostDeadline)
		}
		if !h.overdue.IsZero() && !time.Now().Before(h.overdue) {
			h.finish(lostOverdue)
		}
	}
	if err := h.end.Load(); err != nil {
		return *err
	}
	return nil
}

// Deadline returns the time until which the line is surely held if nothing more is heard from the service. It moves on
// as the session is renewed in the background, up to the end that MaxHold sets. It is zero once the hold has ended.
func (h *Hold) Deadline() time.Time {
	if h.Err() != nil {
		return time.Time{}
	}
	return h.bounded(h.session.Deadline())
}

// Release lets go of the line. It returns nil if the line was held until this call, and ErrLost if it was not held to
// the end: check the result before you tell anybody that the work is done. You may call it any number of times. It
// needs no context: it works after the caller's has ended, takes no longer than one request may (see
// WithRequestTimeout), and goes on in the background if it must.
func (h *Hold) Release() error {
	if h.takeOff() {
		h.leave()
	}
	if end := *h.end.Load(); end != ErrReleased {
		return &Error{Op: "release", Line: h.acquired.line, Err: end}
	}
	return nil
}

// takeOff is what Release does here, before the service is asked. It returns true to who then has to call leave.
func (h *Hold) takeOff() bool {
	called := time.Now()
	h.Err() // what has passed makes it lost, noticed or not
	// Whoever hears that it was released may close the client at once, and must not find a hold there that is left to the TTL.
	last := h.outer == nil && h.session.remove(h)
	if h.finishAt(called, ErrReleased) && h.isTold() { // before anybody else is let in, who is told of as well
		h.acquired.tells.released(called, h.Node, called.Sub(h.since))
	}
	if h.outer != nil {
		h.outer.forget(h)
		if h.isTurn() {
			h.shared.pass(h)
		}
	}
	return last
}

// finish ends the hold and everything inside it. Of several reasons the first one counts.
func (h *Hold) finish(why error) { h.finishAt(h.sureUntil(), why) }

// sureUntil is the latest time at which the line was surely held, if the hold ends now. If the session has ended,
// nobody here knows since when; then it is no later than when the session was last seen alive.
func (h *Hold) sureUntil() time.Time {
	at := time.Now()
	if h.session.ended() {
		at = *h.session.seen.Load()
	}
	return h.bounded(at)
}

// bounded returns a time, or the end that the hold has anyway if that comes before.
func (h *Hold) bounded(at time.Time) time.Time {
	if d := h.session.Deadline(); d.Before(at) {
		at = d
	}
	if end := h.endsBy(); !end.IsZero() && end.Before(at) {
		at = end
	}
	return at
}

// finishAt reports whether this is the reason that counts.
func (h *Hold) finishAt(at time.Time, why error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.end.CompareAndSwap(nil, &why) {
		return false
	}
	h.until = at
	if h.timer != nil {
		h.timer.Stop()
	}
	if h.noting != nil {
		h.noting.Stop()
	}
	if h.ending != nil && why != lostOverdue {
		h.ending.Stop()
	}
	h.cancel(why)
	for _, end := range h.inside {
		end(why)
	}
	h.inside = nil
	switch {
	case !h.isTold() || !errors.Is(why, ErrLost):
	case h.begun:
		h.acquired.tells.lost(at, h.Node, why)
	default:
		h.untold = true
	}
	return true
}

// isTold reports whether observers are told of the hold. Nested ones are the same turn, and of a shared node they hear of its
// turns.
func (h *Hold) isTold() bool { return (h.outer == nil) == (h.shared == nil) }

// leave takes the node away, once any amendment under way has ended.
func (h *Hold) leave() {
	close(h.left)
	c := h.acquired.client
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.ctx), c.requestTimeout())
	defer cancel()
	leave := func() {
		defer h.session.stand(-1)
		err := h.place.Leave(ctx, h.alone)
		if errors.Is(err, driver.ErrSessionEnded) && h.session.abandoned.Load() {
			_ = c.driver.Remove(ctx, h.place.Node())
		}
		<-h.changing
	}
	select {
	case h.changing <- struct{}{}:
		leave()
	default:
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			h.changing <- struct{}{}
			leave()
		}()
		select {
		case <-gone:
		case <-ctx.Done():
		}
	}
}
