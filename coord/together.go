package coord

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// Together lets callers of one client share a node. Whoever asks for a line less than within after the request to join it
// was sent steps into the node that was asked for, whether it waits or is held, and there they take turns without asking the
// service: those who exclude each other one after the other, first come, first served; readers all at once. At most 255 turns
// share a node. So the order among all processes is first come, first served to within that time.
//
// The node also stays that long if nobody is inside, for who asks next. Whoever joined behind it from elsewhere waits so much
// longer, and one more request; whoever tries finds it busy. If the process dies meanwhile they wait until its session has
// ended: one that ends as soon as it has released calls Shutdown or Close first.
//
// Each turn is a Hold with a token of its own, greater than that of every hold that had to end before it. It is lost with the
// node. A Hold that is pinned is the last of its node.
//
// Callers share if they ask for the same line as the same kind with the same data; each says for itself how late it may be to
// step in. A time of zero or less changes nothing. It has no effect on a call with Anew, OnWait,
// Asking or Rank.
func Together(within time.Duration) AcquireOption { return func(a *acquire) { a.within = within } }

// maxTurns is how many turns of a node have tokens.
const maxTurns = 1<<TurnBits - 1

// sharing is what a client knows of the nodes that its callers share.
type sharing struct {
	mu    sync.Mutex // guards all that is in the shared nodes, too
	open  map[sharedAs]*shared
	lines map[string][]*shared // all that may be in line
}

// nodes returns those of a line, or of all if line is "".
func (s *sharing) nodes(line string) (nodes []*shared) {
	if line != "" {
		return slices.Clone(s.lines[line])
	}
	for _, some := range s.lines {
		nodes = append(nodes, some...)
	}
	return nodes
}

// forget returns true if it had not been called for the node before.
func (s *sharing) forget(n *shared) bool {
	line := n.as.line
	i := slices.Index(s.lines[line], n)
	if i < 0 {
		return false
	}
	s.lines[line] = slices.Delete(s.lines[line], i, i+1)
	if len(s.lines[line]) == 0 {
		delete(s.lines, line)
	}
	return true
}

// sharedAs is what callers must have in common to share a node.
type sharedAs struct{ line, kind, data string }

// shared is a node that callers share. It ends once: no turn of it is given after that.
type shared struct {
	*Client
	as     sharedAs
	rule   Rule
	within time.Duration           // of the caller that it was made for
	cancel context.CancelCauseFunc // gives up the wait for the node's turn

	sent    time.Time // when the request to join was sent; zero: not yet
	session *session  // where it stands in line; nil: nowhere
	place   driver.Place
	ahead   int // as in acquire
	blocker Node
	hold    *Hold              // of the node; nil: it is not its turn yet
	waiting []*asker           // in the order in which they asked
	inside  map[*Hold]struct{} // the turns that have not been released, lost or not
	turns   Token              // how many were given
	stays   *time.Timer        // started when nobody is inside for the first time: it goes when the time is over
	waits   bool               // observers were told of a wait, and not of its end
	gaveUp  error              // why the last one left who had no turn
	wanted  bool               // others of this client wait for it to go: it does not stay
	ended   bool
	done    chan struct{} // closed when the node has its turn, or gave up
}

// asker is a call that waits for a turn.
type asker struct {
	call *acquire
	in   *shared   // changes if the node is lost
	got  chan turn // capacity 1; who sends takes the asker off waiting
}

type turn struct {
	hold *Hold
	err  error
}

func (a *acquire) sharedAs() sharedAs { return sharedAs{a.line, a.entry.Kind, string(a.entry.Data)} }

// sharesNode reports whether the call may share a node.
func (a *acquire) sharesNode() bool {
	return a.within > 0 && a.ifHeld != joinAnew && a.onWait == nil && a.says == (remarks{})
}

// together waits for a turn of a shared node.
func (a *acquire) together(ctx context.Context) (*Hold, error) {
	me := &asker{call: a, got: make(chan turn, 1)}
	a.sharing.mu.Lock()
	node := a.sharing.open[a.sharedAs()]
	if node == nil || !node.takes(a.within) {
		leaveAll(a.takeIdle(a.line, true))
		node = a.newShared(a.sharedAs(), a.rule, a.within)
	}
	node.enter(me)
	node.advance()
	a.sharing.mu.Unlock()

	select {
	case t := <-me.got:
		return t.hold, t.err
	case <-ctx.Done():
	}
	why := context.Cause(a.user)
	a.sharing.mu.Lock()
	node, left := me.leave(why)
	a.sharing.mu.Unlock()
	if !left {
		t := <-me.got
		return t.hold, t.err
	}
	if node != nil {
		select {
		case <-node.done:
		case <-time.After(100 * time.Millisecond): // it goes on without the caller
		}
	}
	return nil, a.wrap(a.reason(ctx, ctx.Err()))
}

// tryTogether takes a turn of a shared node if one is free. Of what excludes others, a node of this client's that is in use
// makes the try vain. Otherwise the service has to be asked.
func (a *acquire) tryTogether() (_ *Hold, known bool) {
	s := &a.sharing
	s.mu.Lock()
	defer s.mu.Unlock()
	node := s.open[a.sharedAs()]
	switch {
	case node == nil, a.life.Err() != nil:
		return nil, false
	case node.takes(a.within) && node.hold != nil && (len(node.inside) == 0 || node.isOpenToAll()):
		return node.give(a), true
	case node.isOpenToAll() || node.isIdle() || node.session == nil || node.hold != nil && node.hold.Err() != nil:
		return nil, false
	}
	node.tellsOf(a, len(node.waiting))
	return nil, true
}

// newShared makes a node that callers can share from now on, and has it join the line.
func (c *Client) newShared(as sharedAs, rule Rule, within time.Duration) *shared {
	n := &shared{Client: c, as: as, rule: rule, within: within, inside: make(map[*Hold]struct{}), done: make(chan struct{})}
	if c.sharing.open == nil {
		c.sharing.open, c.sharing.lines = make(map[sharedAs]*shared), make(map[string][]*shared)
	}
	c.sharing.open[as] = n
	c.sharing.lines[as.line] = append(c.sharing.lines[as.line], n)
	var ctx context.Context
	ctx, n.cancel = context.WithCancelCause(context.Background())
	go n.run(ctx)
	return n
}

// run takes the node's place in line, waits for its turn, and has it shared.
func (n *shared) run(ctx context.Context) {
	defer close(n.done)
	defer n.cancel(nil)
	var h *Hold
	err := error(&Error{Op: "acquire", Line: n.as.line, Err: errNoReturn})
	defer func() { n.free(func() bool { return n.begins(h, err) }) }()
	h, err = n.acquire(ctx)
}

// begins is called when the node has its turn, or gave up, and reports whether it has to go.
func (n *shared) begins(h *Hold, err error) bool {
	if err == nil {
		n.hold = h
		h.keep(n, func(error) { go n.lost() })
		return n.over() // all may have given up just now
	}
	n.end()
	n.sharing.forget(n)
	for _, m := range n.waiting {
		m.got <- turn{err: err}
	}
	n.waiting = nil
	return false
}

// acquire turns a panic of the rule into an error: nobody else would recover from it here.
func (n *shared) acquire(ctx context.Context) (_ *Hold, err error) {
	a := acquire{Client: n.Client, op: "acquire", maxWait: forever, shared: n}
	defer func() {
		if p := recover(); p != nil {
			err = a.wrap(rulePanicked(p))
		}
	}()
	return a.run(ctx, n.as.line, n.as.kind, []byte(n.as.data), n.rule, []AcquireOption{Anew()})
}

// takes reports whether somebody else may step in.
func (n *shared) takes(within time.Duration) bool {
	return !n.ended && int(n.turns)+len(n.waiting) < maxTurns && (n.sent.IsZero() || time.Since(n.sent) < within) &&
		(n.hold == nil || n.hold.Err() == nil)
}

// isOpenToAll reports whether all who share the node may be inside at once.
func (n *shared) isOpenToAll() bool { return n.as.kind == rules.Reader }

func (n *shared) isIdle() bool { return n.hold != nil && len(n.inside)+len(n.waiting) == 0 }

func (n *shared) enter(m *asker) {
	m.in = n
	n.waiting = append(n.waiting, m)
}

// leave takes back an asker, unless it has got its answer. It returns the node if that gives up as well.
func (m *asker) leave(why error) (givesUp *shared, left bool) {
	n := m.in
	i := slices.Index(n.waiting, m)
	if i < 0 {
		return nil, false
	}
	n.tellsOf(m.call, i)
	n.gaveUp = why
	n.waiting = slices.Delete(n.waiting, i, i+1)
	if len(n.waiting) > 0 || n.hold != nil {
		return nil, true
	}
	n.end()
	n.cancel(why)
	return n, true
}

// tellsOf says what was in the way of a call behind so many others.
func (n *shared) tellsOf(a *acquire, before int) {
	a.session, a.ahead, a.blocker = n.session, n.ahead+before, n.blocker
	if n.hold != nil {
		a.ahead, a.blocker = len(n.inside)+before, n.hold.place.Node()
	}
	if a.session == nil {
		a.mu.Lock()
		a.trouble = a.notOpen(a.opening)
		a.mu.Unlock()
	}
}

// advance gives turns to those who can have one. If there is nobody, the node stays for its time. If it cannot be passed on
// any more, those who wait join anew.
func (n *shared) advance() {
	if n.hold == nil {
		return
	}
	if n.life.Err() != nil || n.hold.Err() != nil {
		n.end()
	}
	if n.ended {
		n.moveOn()
	}
	for len(n.waiting) > 0 && (len(n.inside) == 0 || n.isOpenToAll()) {
		m := n.waiting[0]
		n.waiting = slices.Delete(n.waiting, 0, 1)
		m.got <- turn{hold: n.give(m.call)}
	}
	if len(n.inside) > 0 {
		return
	}
	left := n.within - time.Since(n.sent)
	if left <= 0 || n.turns >= maxTurns || n.wanted {
		n.end()
	}
	if !n.ended && n.stays == nil {
		n.stays = time.AfterFunc(left, func() { n.free(n.isIdle) })
	}
}

// give makes the next turn.
func (n *shared) give(a *acquire) *Hold {
	n.turns++
	n.waits = false
	h := n.hold.turn(a, n)
	n.inside[h] = struct{}{}
	return h
}

// end says that no turn is given any more.
func (n *shared) end() {
	n.ended = true
	if n.sharing.open[n.as] == n {
		delete(n.sharing.open, n.as)
	}
}

// moveOn has those who wait join anew, in their order.
func (n *shared) moveOn() {
	if len(n.waiting) == 0 {
		return
	}
	if n.hold.Err() != nil {
		n.waits = false
		n.observer.rejoining(n.hold.Node)
	}
	next := n.sharing.open[n.as]
	if next == nil || int(next.turns)+len(next.waiting)+len(n.waiting) > maxTurns || !next.takes(n.within) {
		next = n.newShared(n.as, n.rule, n.within)
	}
	for _, m := range n.waiting {
		next.enter(m)
	}
	n.waiting = nil
	next.advance() // it may be held, with nobody inside
}

// free lets go of the node if that is so; it is called without the lock.
func (n *shared) free(is func() bool) {
	n.sharing.mu.Lock()
	free := is() && n.takeOff()
	n.sharing.mu.Unlock()
	if free {
		n.hold.leave()
	}
}

// takeOff ends the hold of the node, once. It returns true to who has to take the node away.
func (n *shared) takeOff() bool {
	if !n.sharing.forget(n) {
		return false
	}
	n.end()
	if n.stays != nil {
		n.stays.Stop()
	}
	if n.waits { // all gave up just as its turn came
		n.observer.gaveUp(n.hold.Node, time.Since(n.sent), n.gaveUp)
	}
	return n.hold.takeOff()
}

// pass is called when a turn was released: the next one begins, or the node goes.
func (n *shared) pass(h *Hold) {
	n.free(func() bool {
		if _, in := n.inside[h]; !in {
			return false
		}
		delete(n.inside, h)
		return n.over()
	})
}

// lost is called when the node's hold has ended: those who wait need not wait until who is inside has noticed.
func (n *shared) lost() { n.free(n.over) }

// over gives turns to those who can have one, and reports whether the node has to go.
func (n *shared) over() bool {
	n.advance()
	return n.ended && len(n.inside) == 0
}

// pin makes this turn the last one.
func (n *shared) pin(h *Hold) {
	n.sharing.mu.Lock()
	defer n.sharing.mu.Unlock()
	if _, in := n.inside[h]; in {
		n.end()
		n.advance()
	}
}

// takeIdle ends the holds of the line's nodes that stay though nobody is inside, and returns them, for leaveAll. If somebody waits
// for the others, they will not stay. Line "" is any.
func (c *Client) takeIdle(line string, waits bool) (idle []*Hold) {
	for _, n := range c.sharing.nodes(line) {
		n.wanted = n.wanted || waits
		if n.isIdle() && n.takeOff() {
			idle = append(idle, n.hold)
		}
	}
	return idle
}

// leaveAll takes the nodes of holds away that were taken off. gone is nil if there are none.
func leaveAll(idle []*Hold) (gone <-chan struct{}) {
	if len(idle) == 0 {
		return nil
	}
	var all sync.WaitGroup
	for _, h := range idle {
		all.Go(h.leave)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		all.Wait()
	}()
	return done
}

// freeIdle lets go of the nodes that stay though nobody is inside; see takeIdle.
func (c *Client) freeIdle(line string, waits bool) (gone <-chan struct{}) {
	c.sharing.mu.Lock()
	defer c.sharing.mu.Unlock()
	return leaveAll(c.takeIdle(line, waits))
}

// makeRoom lets go of the nodes of the line that only this process keeps. A try would find one that still stands.
func (a *acquire) makeRoom(ctx context.Context) {
	gone := a.freeIdle(a.line, !a.try)
	if gone == nil || !a.try {
		return
	}
	select {
	case <-gone:
	case <-ctx.Done():
	}
}

// insideOf counts, for each node of a line that callers of this client share, those who hold or wait.
func (c *Client) insideOf(line string) map[string]int {
	c.sharing.mu.Lock()
	defer c.sharing.mu.Unlock()
	counts := make(map[string]int)
	for _, n := range c.sharing.lines[line] {
		if n.place != nil {
			counts[n.place.Node().ID] = len(n.inside) + len(n.waiting)
		}
	}
	return counts
}

// sends, stands and sees are told by the call that takes the node's place in line. Of a nil node there is nothing to tell.
func (n *shared) sends() {
	n.note(func() { n.sent = time.Now() })
}

func (n *shared) stands(s *session, place driver.Place) {
	n.note(func() { n.session, n.place = s, place })
}

func (n *shared) sees(ahead int, blocker Node) {
	n.note(func() { n.ahead, n.blocker, n.waits = ahead, blocker, n.waits || ahead > 0 })
}

func (n *shared) note(f func()) {
	if n == nil {
		return
	}
	n.sharing.mu.Lock()
	defer n.sharing.mu.Unlock()
	f()
}

// turn returns the hold of the next turn of a node that is held.
func (h *Hold) turn(a *acquire, n *shared) *Hold {
	from := h.acquired
	if a.tells != from.tells { // the call has observers of its own
		from = &acquired{from.client, a.tells, from.line, from.rule}
	}
	t := &Hold{acquired: from, session: h.session, outer: h, place: h.place, since: time.Now(), asks: h.kind(),
		shared: n, nth: n.turns}
	t.start(t.heldInside(context.WithoutCancel(a.user), a.outside), a.maxHold)
	h.keep(t, t.loseWithOuter)
	t.begin(a)
	t.expires()
	return t
}

// isTurn reports whether the hold is one turn of a shared node.
func (h *Hold) isTurn() bool { return h.shared != nil && h.outer != nil }

// Pin says that somebody compares the hold's node to know whether the hold still lasts, as the guards of ZooKeeper and etcd do.
// So nobody shares the node any more: see Together. It does nothing to holds that share no node.
func (h *Hold) Pin() {
	for ; h != nil; h = h.outer {
		if h.isTurn() {
			h.shared.pin(h)
		}
	}
}
