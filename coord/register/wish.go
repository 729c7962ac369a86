package register

import (
	"errors"
	"time"
)

// wish is something that somebody wants done to a line, or wants to know of it.
type wish struct {
	of    *session // it ends with this session; nil: it is nobody's
	since time.Time

	// do changes a draft of the line, or looks at it. It is called once for each try, and the last one counts: the one that was
	// swapped in, or that needed no swap. It returns errLook if what is known of the line may be out of date, and a look is
	// needed before the wish can be decided.
	do func(d *draft, t try) error

	creates bool // it may make a line that has not been there
	grows   bool // it may make a line longer in another way

	number   uint64 // among the wishes of its clerk
	mustLook bool   // do has returned errLook for what is known

	// These belong to the clerk, with its mutex.
	underWay bool // a request has been sent for it
	open     bool // one of its requests may yet be applied
	givenUp  bool // nobody waits for it
	decided  bool

	err  error
	done chan struct{} // closed when it is decided
	said chan error    // what stands in its way, while the clerk goes on
}

// try is one attempt to carry out a wish.
type try struct {
	fresh bool // the line is known as it stood after the wish was made
	again bool // an earlier try may have been applied
}

// errLook asks for a look at the line.
var errLook = errors.New("the line must be looked at")

func newWish(of *session, do func(d *draft, t try) error) *wish {
	return &wish{of: of, since: time.Now(), do: do, done: make(chan struct{}), said: make(chan error, 1)}
}

func (w *wish) decide(err error) {
	w.err = err
	close(w.done)
}

// say tells of a refusal, if anybody listens.
func (w *wish) say(err error) {
	select {
	case w.said <- err:
	default:
	}
}
