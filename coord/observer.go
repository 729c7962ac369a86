package coord

import "time"

// Observer is told what a client does, for logs and metrics. Each hook may be nil. Hooks are called from the client's
// own goroutines and from those of its callers, often many at once, and hold them up: they must be quick, and must not
// call back.
type Observer struct {
	// SessionOpened: the client has a session, its first or another one.
	SessionOpened func()

	// SessionEnded: the session is over; those who held lose, those who wait join again at the tail.
	SessionEnded func()

	// OpenFailed: the service was not reached, or refused; the client tries again unless access was denied.
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

// complete returns an observer whose hooks can all be called.
func (o *Observer) complete() *Observer {
	var all Observer
	if o != nil {
		all = *o
	}
	nop := func() {}
	if all.SessionOpened == nil {
		all.SessionOpened = nop
	}
	if all.SessionEnded == nil {
		all.SessionEnded = nop
	}
	if all.OpenFailed == nil {
		all.OpenFailed = func(error) {}
	}
	if all.Waiting == nil {
		all.Waiting = func(Node, int) {}
	}
	if all.Woken == nil {
		all.Woken = func(Node) {}
	}
	if all.Rejoining == nil {
		all.Rejoining = func(Node) {}
	}
	if all.Granted == nil {
		all.Granted = func(Node, time.Duration) {}
	}
	if all.Released == nil {
		all.Released = func(Node, time.Duration) {}
	}
	if all.Lost == nil {
		all.Lost = func(Node, error) {}
	}
	return &all
}
