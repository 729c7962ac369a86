package coord

import (
	"sync"
	"time"
)

// Observer is told what a client does, for logs and metrics. Each hook may be nil.
//
// Hooks are called one after the other, in the order in which things happened, on a goroutine of their own: a little
// after the fact, perhaps after the call has returned that it is about. The end of a session is told after the losses
// that it caused, and before the next session. A slow hook delays what is told after it and nothing else, so it keeps no
// hold alive; but what is not told yet takes memory.
type Observer struct {
	// SessionOpened: the client has a session, its first or another one.
	SessionOpened func()

	// SessionEnded: the session is over; those who held lose, those who wait join again at the tail.
	SessionEnded func()

	// OpenFailed: the service was not reached, or refused; the client tries again unless access was denied. It is told
	// every ten seconds or so while the service is out of reach and somebody wants a session.
	OpenFailed func(err error)

	// Waiting: a node had to wait when it joined; ahead counts the nodes it saw, perhaps only the nearest.
	Waiting func(me Node, ahead int)

	// Woken: a waiter looked again, whether or not it may go.
	Woken func(me Node)

	// Rejoining: a waiter lost its place with its session and joins again at the tail.
	Rejoining func(lost Node)

	// Granted: it is this node's turn; waited is how long ago Acquire was called.
	Granted func(me Node, waited time.Duration)

	// Released: the owner let go; held is for how long it had the line.
	Released func(me Node, held time.Duration)

	// Lost: a hold ended before it was released. err says why.
	Lost func(me Node, err error)
}

// teller calls the hooks of an observer. Whoever has news hands it over and goes on: the end of a hold waits for nobody.
type teller struct {
	to *Observer // nil: nobody listens

	mu      sync.Mutex
	news    []func()
	telling bool // a goroutine is at it
}

func (t *teller) tell(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.news = append(t.news, f)
	if !t.telling {
		t.telling = true
		go t.run()
	}
}

// run goes on until there is no more to tell.
func (t *teller) run() {
	for {
		t.mu.Lock()
		news := t.news
		t.news = nil
		t.telling = len(news) > 0
		t.mu.Unlock()
		if len(news) == 0 {
			return
		}
		for _, f := range news {
			f()
		}
	}
}

func (t *teller) sessionOpened() {
	if t.to != nil && t.to.SessionOpened != nil {
		t.tell(t.to.SessionOpened)
	}
}

func (t *teller) sessionEnded() {
	if t.to != nil && t.to.SessionEnded != nil {
		t.tell(t.to.SessionEnded)
	}
}

func (t *teller) openFailed(err error) {
	if t.to != nil && t.to.OpenFailed != nil {
		t.tell(func() { t.to.OpenFailed(err) })
	}
}

func (t *teller) waiting(me func() Node, ahead int) {
	if t.to != nil && t.to.Waiting != nil {
		n := me()
		t.tell(func() { t.to.Waiting(n, ahead) })
	}
}

func (t *teller) woken(me func() Node) {
	if t.to != nil && t.to.Woken != nil {
		n := me()
		t.tell(func() { t.to.Woken(n) })
	}
}

func (t *teller) rejoining(lost func() Node) {
	if t.to != nil && t.to.Rejoining != nil {
		n := lost()
		t.tell(func() { t.to.Rejoining(n) })
	}
}

func (t *teller) granted(me func() Node, waited time.Duration) {
	if t.to != nil && t.to.Granted != nil {
		n := me()
		t.tell(func() { t.to.Granted(n, waited) })
	}
}

func (t *teller) released(me func() Node, held time.Duration) {
	if t.to != nil && t.to.Released != nil {
		n := me()
		t.tell(func() { t.to.Released(n, held) })
	}
}

func (t *teller) lost(me func() Node, err error) {
	if t.to != nil && t.to.Lost != nil {
		n := me()
		t.tell(func() { t.to.Lost(n, err) })
	}
}
