package coord

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Observer is told what a client does, for logs, metrics and traces (see package trace). Each hook may be nil.
//
// Hooks but Acquiring are called one after the other, in the order in which things happened, on a goroutine of their own. That is a
// little after the fact, perhaps after the call in question has returned, so at says when it happened. Where turns follow one another
// without a pause, it may be a millisecond after. Close and Shutdown wait a moment for them. The end of a session is told after the
// losses that it caused, and before the next session. A slow hook delays only what is told after it, so it keeps no hold alive; but
// what has not been told yet takes memory. Nobody recovers a hook that panics: the program ends, and its stack says where.
//
// Nothing is told of a hold that is nested in another one: it is the same turn. Of callers who share a node (see Together),
// Granted, Released and Lost are told of each turn, and the rest of the node, which has the number of no turn in its token.
type Observer struct {
	// ForClient: a client is given this Observer. NewClient calls it at once, and tells what it returns in place of this one; nil: it
	// tells nobody. It is for an Observer that remembers what it was told, and may be given to several clients: lines, nodes and tokens
	// of two services may be called the same. Of the Observer that Acquiring returns it is not called. Who sets a hook of such an Observer
	// sets it in vain: give the client another Observer beside it.
	ForClient func() *Observer

	// Acquiring: Acquire or TryAcquire was called, for a turn of its own. This hook alone is called at once, with the call's context
	// and on its goroutine. So it must return soon, and several calls may be in it at a time. The Observer that it returns, such as
	// one that logs for a request, is told of this call and of its hold, each thing before the client's Observers are. Nil: none.
	// It is told nothing of sessions, and of a node that callers share only Granted, Released and Lost of its own turn.
	Acquiring func(ctx context.Context) *Observer

	// SessionOpened: the client has a session, its first or another one.
	SessionOpened func(at time.Time)

	// SessionEnded: the session is over. If why is nil, the client was closed and nobody held anything. Otherwise why is the
	// reason, the session's holds are lost, and its waiters join again at the tail.
	SessionEnded func(at time.Time, why error)

	// OpenFailed: the service was not reached, or refused; the client tries again unless access was denied. It is told
	// every ten seconds or so while the service is out of reach and somebody wants a session.
	OpenFailed func(at time.Time, err error)

	// Waiting: a node had to wait when it joined; ahead counts the nodes it saw, perhaps only the nearest.
	Waiting func(at time.Time, me Node, ahead int)

	// Behind: who was first in line when a node began to wait. A client with WithTraces looks that up, by a request of its own, and
	// nobody waits for it: it may be told late, or not at all.
	Behind func(at time.Time, me, first Node)

	// Woken: a waiter looked again, whether or not its turn has come.
	Woken func(at time.Time, me Node)

	// Rejoining: a waiter lost its place with its session and joins again at the tail.
	Rejoining func(at time.Time, lost Node)

	// GaveUp: a call that had to wait has ended without its turn; err is what it returns, and waited how long ago it was made. If it
	// had no place just then, me is the one that it has lost.
	GaveUp func(at time.Time, me Node, waited time.Duration, err error)

	// Granted: it is this node's turn; waited is how long ago Acquire was called.
	Granted func(at time.Time, me Node, waited time.Duration)

	// Amended: from now on the line is held as me.Kind, as when a writer has become a reader.
	Amended func(at time.Time, me Node)

	// Released: the owner let go, and the line was held until then; held is how long it had the line.
	Released func(at time.Time, me Node, held time.Duration)

	// Lost: a hold ended before it was released; err says why, as Hold.Err does. at is until when the line was surely held, which may be a
	// while ago: the deadline that has passed, or the time when the session was last seen alive.
	Lost func(at time.Time, me Node, err error)
}

// teller calls the hooks of observers. Its callers hand over their news and go on: the end of a hold waits for nobody.
type teller struct {
	to []*Observer // none of them nil
	*telling
}

// telling is what is told, one thing after the other.
type telling struct {
	mu      sync.Mutex
	news    []func()
	running bool // run is under way, or will be

	rested time.Time // when run last had no more to tell
	quick  int       // how often in a row it was wanted again soon after that
}

// Who turns fast is told of together: to start run wakes a processor, which costs the caller as much as some turns do.
const (
	gather = time.Millisecond
	burst  = 32
)

// forClient returns the observers that one client tells.
func forClient(all []*Observer) (own []*Observer) {
	for _, o := range all {
		if o.ForClient != nil {
			o = o.ForClient()
		}
		if o != nil {
			own = append(own, o)
		}
	}
	return own
}

// of returns who tells of one call and of its hold: t itself, if nobody in particular wants to know.
func (t *teller) of(ctx context.Context) *teller {
	var own []*Observer
	for _, o := range t.to {
		if o.Acquiring == nil {
			continue
		}
		if o := o.Acquiring(ctx); o != nil {
			own = append(own, o)
		}
	}
	if own == nil {
		return t
	}
	return &teller{slices.Concat(own, t.to), t.telling}
}

func (t *telling) tell(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.news = append(t.news, f)
	if t.running {
		return
	}
	t.running = true
	if time.Since(t.rested) > gather {
		t.quick = 0
	} else {
		t.quick++
	}
	if t.quick < burst {
		go t.run()
	} else {
		time.AfterFunc(gather, t.run)
	}
}

// run goes on until there is no more to tell. A hook that ends its goroutine, as t.FailNow does, keeps nobody from what is told after it.
func (t *telling) run() {
	returned := false
	defer func() {
		if !returned {
			go t.run()
		}
	}()
	for f := t.next(); f != nil; f = t.next() {
		f()
	}
	returned = true
}

// next returns what is to be told, or nil if there is no more.
func (t *telling) next() (f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.news) == 0 {
		t.news, t.running, t.rested = nil, false, time.Now()
		return nil
	}
	f, t.news[0] = t.news[0], nil
	t.news = t.news[1:]
	return f
}

// rest waits until everything so far has been told, but not for long: a hook may be slow, or may be what called rest.
func (t *teller) rest() {
	if len(t.to) == 0 {
		return
	}
	told := make(chan struct{})
	t.tell(func() { close(told) })
	select {
	case <-told:
	case <-time.After(hookPatience):
	}
}

const hookPatience = time.Second

func (t *teller) sessionOpened() {
	at := time.Now()
	for _, o := range t.to {
		if o.SessionOpened != nil {
			t.tell(func() { o.SessionOpened(at) })
		}
	}
}

func (t *teller) sessionEnded(why error) {
	at := time.Now()
	for _, o := range t.to {
		if o.SessionEnded != nil {
			t.tell(func() { o.SessionEnded(at, why) })
		}
	}
}

func (t *teller) openFailed(err error) {
	at := time.Now()
	for _, o := range t.to {
		if o.OpenFailed != nil {
			t.tell(func() { o.OpenFailed(at, err) })
		}
	}
}

func (t *teller) waiting(me func() Node, ahead int) {
	at := time.Now()
	for _, o := range t.to {
		if o.Waiting != nil {
			n := me()
			t.tell(func() { o.Waiting(at, n, ahead) })
		}
	}
}

func (t *teller) wantsFirst() bool {
	return slices.ContainsFunc(t.to, func(o *Observer) bool { return o.Behind != nil })
}

func (t *teller) behind(me, first Node) {
	at := time.Now()
	for _, o := range t.to {
		if o.Behind != nil {
			t.tell(func() { o.Behind(at, me, first) })
		}
	}
}

func (t *teller) woken(me func() Node) {
	at := time.Now()
	for _, o := range t.to {
		if o.Woken != nil {
			n := me()
			t.tell(func() { o.Woken(at, n) })
		}
	}
}

func (t *teller) rejoining(lost func() Node) {
	at := time.Now()
	for _, o := range t.to {
		if o.Rejoining != nil {
			n := lost()
			t.tell(func() { o.Rejoining(at, n) })
		}
	}
}

func (t *teller) gaveUp(me func() Node, waited time.Duration, err error) {
	at := time.Now()
	for _, o := range t.to {
		if o.GaveUp != nil {
			n := me()
			t.tell(func() { o.GaveUp(at, n, waited, err) })
		}
	}
}

func (t *teller) granted(at time.Time, me func() Node, waited time.Duration) {
	for _, o := range t.to {
		if o.Granted != nil {
			n := me()
			t.tell(func() { o.Granted(at, n, waited) })
		}
	}
}

func (t *teller) amended(at time.Time, me func() Node) {
	for _, o := range t.to {
		if o.Amended != nil {
			n := me()
			t.tell(func() { o.Amended(at, n) })
		}
	}
}

func (t *teller) released(at time.Time, me func() Node, held time.Duration) {
	for _, o := range t.to {
		if o.Released != nil {
			n := me()
			t.tell(func() { o.Released(at, n, held) })
		}
	}
}

func (t *teller) lost(at time.Time, me func() Node, err error) {
	for _, o := range t.to {
		if o.Lost != nil {
			n := me()
			t.tell(func() { o.Lost(at, n, err) })
		}
	}
}
