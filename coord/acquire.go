package coord

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// AcquireOption changes how long Acquire waits, or what it does when the caller already holds the line. A nil
// AcquireOption changes nothing.
type AcquireOption func(*acquire)

// Reentrant lets a caller whose context descends from a live hold of the same line acquire it again, at once: the new
// hold is nested in that one, has the same token, and ends when the outer one does. Without it Acquire returns ErrHeld.
func Reentrant() AcquireOption { return func(a *acquire) { a.ifHeld = nestInHold } }

// MaxWait bounds how long Acquire waits. After that it returns an error that is context.DeadlineExceeded, and also
// ErrBusy or ErrUnavailable. If it has waited in a circle, for somebody who waits for what this client holds, the error says so: see
// Error.Circle.
// With zero or less it does not wait at all: it does what TryAcquire does, except for the
// error. MaxWait changes nothing for TryAcquire, which never waits.
func MaxWait(d time.Duration) AcquireOption { return func(a *acquire) { a.maxWait = d } }

const forever time.Duration = math.MaxInt64

// MaxHold bounds how long the hold lasts. When that time is over it ends by itself, with an error that is ErrLost and
// context.DeadlineExceeded, and the line is given back. Whoever works under it knows beforehand: its Context has that deadline.
// Zero or less changes nothing.
func MaxHold(d time.Duration) AcquireOption { return func(a *acquire) { a.maxHold = d } }

// Anew joins the line even if the caller already holds it. If it holds it alone and would wait for itself, Acquire returns ErrHeld.
// It is for recipes that have room for several holders.
func Anew() AcquireOption { return func(a *acquire) { a.ifHeld = joinAnew } }

// OnWait has f called once Acquire has taken its place in line and found that it has to wait there, and again if it has to
// join anew. f is called before the wait, on the goroutine of Acquire, and should return soon. If others have to leave before
// there is a place in the line at all, as on ZooKeeper after two billion joins, f is called then as well, on another goroutine,
// and Acquire does not return meanwhile.
func OnWait(f func()) AcquireOption { return func(a *acquire) { a.onWait = f } }

type ifHeld int

const (
	refuseHeld ifHeld = iota
	nestInHold
	joinAnew
)

// acquire is one call of Acquire or TryAcquire.
type acquire struct {
	*Client
	op      string
	line    string // as the user gave it
	entry   driver.Entry
	rule    Rule
	ifHeld  ifHeld
	maxWait time.Duration
	maxHold time.Duration
	onWait  func()
	says    remarks         // beside the data of its node
	within  time.Duration   // Together; 0: it shares no node
	shared  *shared         // the node that it gets the turn of, for others to share; nil: none
	try     bool            // it waits for nobody
	noWait  bool            // and that only because maxWait leaves no time
	user    context.Context // as the user gave it
	tells   *teller         // of this call
	outside *heldWithin     // what that descends from
	since   time.Time

	session *session // where it stands in line; nil: nowhere
	ahead   int      // how many were in its way at the last look
	blocker Node     // the nearest of them
	trouble error    // what the service said last

	waits bool        // the observers were told that it does
	lost  func() Node // where it waited until its session ended; nil: it did not, or waits again

	panicked atomic.Pointer[error] // the rule, on a goroutine of the driver
}

// Acquire joins a line and waits for its turn by the rule. ctx governs the wait, not the work: the hold does not end
// with ctx. On failure nothing of the call is left at the service, now or later.
//
// If the session is lost while Acquire waits, it joins again at the tail and tells the Observer.
func (c *Client) Acquire(ctx context.Context, line, kind string, data []byte, rule Rule, opts ...AcquireOption) (*Hold, error) {
	a := acquire{Client: c, op: "acquire", maxWait: forever}
	return a.run(ctx, line, kind, data, rule, opts)
}

// TryAcquire is Acquire without the wait: it looks first, and if somebody is in the way, it creates nothing and returns
// ErrBusy, in an Error that says who is first in line. (If two try at the same moment, each may find the other in its
// way.) If the service cannot be reached within the deadline of one request (see WithRequestTimeout), it returns
// ErrUnavailable.
func (c *Client) TryAcquire(ctx context.Context, line, kind string, data []byte, rule Rule, opts ...AcquireOption) (*Hold, error) {
	a := acquire{Client: c, op: "try", try: true}
	return a.run(ctx, line, kind, data, rule, opts)
}

func (a *acquire) run(ctx context.Context, line, kind string, data []byte, rule Rule, opts []AcquireOption) (*Hold, error) {
	held, err := a.prepare(ctx, line, kind, data, rule, opts)
	if err != nil {
		return nil, a.wrap(err)
	}
	if held != nil {
		h, err := held.nest(ctx, kind, a.maxHold)
		if err != nil {
			return nil, a.wrap(err)
		}
		return h, nil
	}
	if a.tells = a.observer; a.shared == nil { // otherwise nobody in particular calls
		a.tells = a.observer.of(ctx)
	}
	var cancel context.CancelFunc
	caller := ctx
	switch {
	case a.try, a.maxWait == forever:
	case a.maxWait <= 0:
		a.try, a.noWait = true, true
	default:
		a.user, cancel = context.WithTimeout(ctx, a.maxWait)
		defer cancel()
	}
	if a.try {
		a.entry.Free = a.free
		ctx, cancel = context.WithTimeout(a.user, a.requestTimeout())
	} else {
		ctx, cancel = context.WithCancel(a.user)
	}
	defer cancel()
	defer context.AfterFunc(a.life, cancel)()

	switch {
	case a.sharesNode() && !a.try:
		h, err := a.together(ctx)
		return h, a.explain(caller, err)
	case a.sharesNode():
		if h, known := a.tryTogether(); h != nil {
			return h, nil
		} else if known {
			return nil, a.wrap(a.outOfTime(ErrBusy))
		}
	}
	if a.shared == nil {
		a.makeRoom(ctx)
	}
	for {
		h, err := a.once(ctx)
		if err == nil {
			return h, nil
		}
		if ctx.Err() == nil && errors.Is(err, driver.ErrSessionEnded) {
			continue
		}
		err = a.wrap(a.reason(ctx, err))
		if a.lost != nil {
			a.tells.gaveUp(a.lost, time.Since(a.since), err)
		}
		return nil, a.explain(caller, err)
	}
}

// prepare works out what is asked for. It returns the caller's present hold if the new one is to be nested in it.
func (a *acquire) prepare(ctx context.Context, line, kind string, data []byte, rule Rule, opts []AcquireOption) (*Hold, error) {
	a.user, a.outside, a.since = ctx, a.Client.outside(ctx), time.Now()
	a.line, a.rule = line, rule
	name, err := a.fullName(line)
	if err == nil {
		err = checkEntry(kind, data, rule)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	for _, o := range opts {
		if o != nil {
			o(a)
		}
	}
	if err := a.says.check(data); err != nil {
		return nil, err
	}
	if held := a.Held(ctx, line); held != nil {
		switch {
		case a.ifHeld == joinAnew && held.shutsOut(rule, Node{Line: name, Kind: kind, Data: data}):
			return nil, ErrHeld
		case a.ifHeld == joinAnew:
		case !rules.Covers(held.kind(), kind):
			return nil, ErrUpgrade
		case a.ifHeld == refuseHeld:
			return nil, ErrHeld
		default:
			return held, nil
		}
	}
	if a.traces != nil && a.shared == nil && !a.sharesNode() {
		a.says.trace = a.traceOf(ctx)
	}
	owner := a.owner
	owner.Since = a.since
	a.entry = driver.Entry{Line: name, Kind: kind, Owner: owner, Data: a.says.with(data), Sight: rule.Sight}
	return nil, nil
}

// once makes one try, in one session: join, look, wait, grant. Unless the turn is granted, nothing stays in the line.
func (a *acquire) once(ctx context.Context) (h *Hold, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a.session, a.waits = nil, false
	a.shared.stands(nil, nil)
	s, err := a.openSession(ctx)
	if err != nil {
		a.trouble = err
		return nil, err
	}
	defer func() {
		if errors.Is(err, driver.ErrBusy) {
			a.seeFirst(ctx)
		}
	}()
	s.stand(1)
	defer s.stand(-1)
	a.shared.sends()
	place, ahead, err := a.join(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() {
		if h == nil && !errors.Is(err, driver.ErrSessionEnded) {
			if err == nil {
				err = errNoReturn
			}
			if a.waits {
				a.tells.gaveUp(func() Node { return a.shown(place.Node()) }, time.Since(a.since), a.wrap(a.reason(ctx, err)))
			}
			a.leaveSoon(s, place)
		}
	}()
	a.session = s
	a.shared.stands(s, place)
	ahead, waited, err := a.awaitTurn(ctx, s, place, ahead)
	announced := ""
	if err == nil {
		// A rule that ignores some kinds cannot know that nobody at all was ahead.
		alone := len(ahead) == 0 && a.rule.Sight.Ignore == nil
		if waited || !place.Last() {
			announced = a.rule.Granted
		}
		h, err = a.grant(ctx, s, place, alone, announced)
	}
	if errors.Is(err, driver.ErrSessionEnded) {
		a.dropSession(s)
		node := func() Node { return a.shown(place.Node()) }
		a.tells.rejoining(node)
		if a.waits {
			a.lost = node
		}
	}
	if err == nil && announced != "" {
		go h.announce()
	}
	return h, err
}

// errNoReturn: the rule, or OnWait's function, panicked or ended its goroutine. Of a panic the caller hears by itself.
var errNoReturn = fmt.Errorf("%w: the rule or what OnWait calls did not return", ErrInvalid)

// awaitTurn returns what was ahead when my turn came, and whether I had to wait for it. It gives no turn past the
// session's deadline.
func (a *acquire) awaitTurn(ctx context.Context, s *session, place driver.Place, ahead []Node) (_ []Node, waited bool, _ error) {
	node := func() Node { return a.shown(place.Node()) }
	for ; ; waited = true {
		wait := a.rule.WaitFor(place.Node(), ahead)
		a.sees(wait)
		switch {
		case len(wait) == 0 && s.alive():
			return ahead, waited, nil
		case len(wait) == 0:
			if err := confirm(ctx, s, place); err != nil {
				return nil, waited, err
			}
			continue
		case a.try:
			return nil, waited, driver.ErrBusy
		case !waited:
			a.waits, a.lost = true, nil
			a.tells.waiting(node, len(ahead))
			a.tellFirst(ctx, node)
			if a.onWait != nil {
				a.onWait()
			}
		}
		var err error
		if ahead, err = place.Await(ctx, wait); err != nil {
			return nil, waited, err
		}
		a.tells.woken(node)
	}
}

// grant makes the hold. If another hold of the session that must not be beside it has not ended, one of the two nodes has
// been removed, or the session has ended, and that hold has not heard of it yet. So grant waits for the other hold to end,
// and makes sure each time that the own node still stands.
func (a *acquire) grant(ctx context.Context, s *session, place driver.Place, alone bool, announced string) (*Hold, error) {
	for wait := time.Duration(0); ; wait = min(max(2*wait, stalePoll), time.Second) {
		h, err := newHold(a, s, place, alone, announced)
		switch {
		case err != errBeside:
			return h, err
		case a.try:
			return nil, driver.ErrBusy
		}
		err = s.pause(ctx, wait)
		for confirmed := false; err == nil && (!confirmed || !s.alive()); confirmed = true { // the answer may come past the deadline
			err = confirm(ctx, s, place)
		}
		if err != nil {
			return nil, err
		}
	}
}

// confirm is for a node whose turn has come while the service has been silent for too long. It waits until the service
// is heard from again. The node may have been removed by then; to find out, confirm amends it to what it already is.
func confirm(ctx context.Context, s *session, place driver.Place) error {
	err := s.awaitRenewal(ctx)
	if err == nil {
		me := place.Node()
		err = place.Amend(ctx, me.Kind, me.Data)
	}
	return err
}

// free reports whether it would be my turn behind these. Drivers call it on goroutines of their own, where a panic of the
// rule would end the process.
func (a *acquire) free(ahead []Node) bool {
	defer func() {
		if p := recover(); p != nil {
			err := rulePanicked(p)
			a.panicked.Store(&err)
		}
	}()
	e := a.entry
	return len(a.rule.WaitFor(Node{Line: e.Line, Kind: e.Kind, Owner: e.Owner, Data: e.Data}, ahead)) == 0
}

// join takes a place in line. If something of the caller's has panicked meanwhile, that is the error, and the place is given back.
func (a *acquire) join(ctx context.Context, s *session) (driver.Place, []Node, error) {
	entry, joined := a.entering()
	place, ahead, err := s.Join(ctx, entry)
	joined()
	if errors.Is(err, driver.ErrSessionEnded) {
		a.dropSession(s)
	}
	if why := a.panicked.Load(); why != nil {
		if err == nil {
			a.leaveSoon(s, place)
		}
		err = *why
	}
	return place, ahead, err
}

// entering returns what to join with, and what to call once that is over. After that nobody is told that the join waits.
func (a *acquire) entering() (e driver.Entry, joined func()) {
	e = a.entry
	if a.onWait == nil {
		return e, func() {}
	}
	var mu sync.Mutex
	over := false
	e.Waits = func() {
		mu.Lock()
		defer mu.Unlock()
		defer func() {
			if p := recover(); p != nil {
				err := fmt.Errorf("%w: what OnWait calls panicked: %v", ErrInvalid, p)
				a.panicked.Store(&err)
			}
		}()
		if !over {
			a.onWait()
		}
	}
	return e, func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
	}
}

func rulePanicked(p any) error { return fmt.Errorf("%w: the rule panicked: %v", ErrInvalid, p) }

// leaveSoon takes a node away for a caller whose context may have ended: it waits a moment for the service to confirm,
// then goes on without the caller.
func (a *acquire) leaveSoon(s *session, place driver.Place) {
	gone := make(chan struct{})
	s.stand(1)
	go func() {
		defer close(gone)
		defer s.stand(-1)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(a.user), a.driver.RequestTimeout())
		defer cancel()
		_ = place.Leave(ctx, false)
	}()
	select {
	case <-gone:
	case <-time.After(50 * time.Millisecond):
	}
}

// reason says why the call ended, so that "somebody has it" and "the service is away" can be told apart.
func (a *acquire) reason(ctx context.Context, err error) error {
	switch {
	case a.life.Err() != nil:
		return a.noMore()
	case ctx.Err() == nil:
		return a.outOfTime(translate(err))
	}
	why := ErrUnavailable
	if a.session != nil && a.session.inTouch() {
		why = ErrBusy
	} else if a.trouble != nil {
		why = a.trouble
	}
	if a.user.Err() == nil { // the deadline of a try, not the user's
		return a.outOfTime(why)
	}
	if cause := context.Cause(a.user); cause != a.user.Err() {
		return fmt.Errorf("%w: %w: %w", a.user.Err(), cause, why)
	}
	return fmt.Errorf("%w: %w", a.user.Err(), why)
}

// outOfTime adds to the reason that there was no time to wait, if the call was made with a MaxWait that allows none.
func (a *acquire) outOfTime(why error) error {
	if a.noWait && (errors.Is(why, ErrBusy) || errors.Is(why, ErrUnavailable)) {
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, why)
	}
	return why
}

func (a *acquire) wrap(err error) error {
	e := &Error{Op: a.op, Line: a.line, Ahead: a.ahead, Err: err}
	if a.ahead > 0 {
		e.Blocker = a.shown(a.blocker)
	}
	if errors.Is(err, ErrBusy) && a.isOurs() {
		e.Err = fmt.Errorf("%w: this process itself has it; within a hold, lock with the hold's context", err)
	}
	return e
}

// isOurs reports whether this process has the line itself, as far as is known: perhaps the caller has, and waits for itself.
func (a *acquire) isOurs() bool {
	if p := processOf(a.blocker.Owner); a.ahead > 0 && p != (process{}) {
		return p == processOf(a.owner)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.Client.session != nil && len(a.Client.session.lines[a.line]) > 0
}

// sees remembers who is in the way.
func (a *acquire) sees(wait []Node) {
	if a.ahead = len(wait); a.ahead > 0 {
		a.blocker = wait[a.ahead-1]
	}
	a.shared.sees(a.ahead, a.blocker)
}

// seeFirst is for a try that was refused: it asks who has the line, once, and for no longer than the try may take.
func (a *acquire) seeFirst(ctx context.Context) {
	if look, err := a.driver.First(ctx, a.entry.Line, 1, nil); err == nil && len(look.Nodes) > 0 {
		a.ahead, a.blocker = max(a.ahead, 1), look.Nodes[0]
	}
}

// tellFirst tells observers who is first in line, for as long as the call waits. Nobody waits for that.
func (a *acquire) tellFirst(ctx context.Context, me func() Node) {
	if a.traces == nil || !a.tells.wantsFirst() {
		return
	}
	n := me()
	go func() {
		if first, err := a.First(ctx, a.line); err == nil && first.ID != "" && first.ID != n.ID {
			a.tells.behind(n, first)
		}
	}()
}

// shown returns the node as the users of this client know it.
func (c *Client) shown(n Node) Node {
	n.Line, n.Token, n.Data = c.ownName(n.Line), n.Token<<TurnBits, bytes.Clone(n.Data)
	return readRemarks(n)
}
