package coord

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// What can go wrong, for errors.Is. Calls return these in an [Error]; a Hold's Err and the cause of its context give
// them bare, without an Error's prefix.
var (
	// ErrBusy: somebody is ahead for whom the caller would have to wait, or may be: the service may have forgotten who holds. It
	// was reached.
	ErrBusy = errors.New("line is busy")

	// ErrUnavailable: the service was not reached in time, so nothing is known about the line.
	ErrUnavailable = errors.New("service is out of reach")

	// ErrLost: the hold ended before it was released: the service was not heard from in time or ended the session, or an
	// operator removed the node.
	ErrLost = errors.New("hold lost")

	// ErrReleased: the hold was released.
	ErrReleased = errors.New("hold released")

	// ErrClosed: the client was shut down or closed.
	ErrClosed = errors.New("client closed")

	// ErrHeld: the context descends from a live hold of the same line; waiting would be waiting for oneself.
	ErrHeld = errors.New("already held by the caller")

	// ErrUpgrade: a write lock was asked for inside a read hold of the same line. Two callers that did so would wait for
	// each other: release the read lock first, and read again under the write lock.
	ErrUpgrade = errors.New("a read hold cannot become a write hold")

	// ErrUnsettled: the service was asked for a change, and nobody knows whether it made it. See Hold.Amend.
	ErrUnsettled = errors.New("whether it was changed is not known")

	// ErrRemoved: an operator removed the node while it waited, or it was gone already. A hold that ends this way is also
	// ErrLost.
	ErrRemoved = errors.New("node removed")

	// ErrForgot: the service may have forgotten who holds. A hold that ends this way is also ErrLost, and it ends before its last
	// deadline. A service that says what it forgets (see [ForgetsOpenly]) lets nobody in until that deadline has passed, so there
	// is time to put things in order. Where the service does not know that it has forgotten, or only the kernel tells of a death,
	// nobody waits, and the hold is just ErrLost.
	ErrForgot = driver.ErrForgot

	// ErrStale: the token is smaller than one that has been seen: its hold has a successor.
	ErrStale = errors.New("token is stale")

	// ErrDenied: the service refuses the credentials, or they lack a permission, or what is stored at the service is open
	// to others who must have no access (see docs/security.md). Trying again does not help.
	ErrDenied = driver.ErrDenied

	// ErrMissing: what the address names is not there: no such database, or no directory in which the one for the locks could be
	// made. The service was reached and has refused nothing; somebody has to make it, or to name another one.
	ErrMissing = driver.ErrMissing

	// ErrTooWeak: the service promises less than the client was told to Require. The service was asked nothing.
	ErrTooWeak = errors.New("the service promises too little")

	// ErrInvalidName: no line can have this name. See CheckName.
	ErrInvalidName = errors.New("invalid name")

	// ErrInvalid: an argument other than a name is invalid, such as an address that nobody could dial.
	ErrInvalid = errors.New("invalid argument")
)

// IsLasting reports whether an error is one that trying again cannot mend: ErrDenied, ErrMissing, ErrClosed, ErrTooWeak, ErrInvalid,
// ErrInvalidName, ErrHeld or ErrUpgrade.
func IsLasting(err error) bool {
	for _, l := range []error{ErrDenied, ErrMissing, ErrClosed, ErrTooWeak, ErrInvalid, ErrInvalidName, ErrHeld, ErrUpgrade} {
		if errors.Is(err, l) {
			return true
		}
	}
	return false
}

// Error is what the calls of this package and of the recipes return. It wraps what ended the call, such as ctx's error,
// together with ErrBusy or ErrUnavailable, and what the service said last. Its text is safe to show: see Printable.
type Error struct {
	// Op is the call: "acquire", "try", "release", "amend", "memo" (Memo and SetMemo), "forget", "do", "line" (Line, First, WatchLine and
	// Watch), "lines", "break", "shutdown" or "close"; of recipes "downgrade", "leader", "run", "once", "wait", "enter" and "leave"; and of
	// fences "pass" and "send".
	Op string

	Line  string // "" if it concerns none
	Ahead int    // how many in sight had to go first when it gave up; 0 if it never looked
	Err   error

	// Blocker is one of the nodes that had to go first, or the zero Node if none was seen. Its kind tells its recipe. For
	// a try it is the first in line, with its Owner, unless that one has just left or the service could not say. For a
	// wait that ran out it is the nearest ahead, usually without its Owner; Client.First returns the first in line.
	Blocker Node

	// Circle is a line that this client holds and that the Blocker, who has Line, waits for, or that somebody waits for whom the
	// Blocker waits for, and so on: none of them goes on before one gives up. It is looked for when a MaxWait has run out; "" if none
	// was seen. Of lines that this client has nothing to do with, eight at most are looked at, in the folder that those it knows have
	// in common, and the first thousand nodes of each: `turnwise serve` and `turnwise top` show all circles.
	Circle string
}

func (e *Error) Error() string {
	s := "turnwise: " + e.Op
	if e.Line != "" {
		s += " " + fmt.Sprintf("%q", shorten(e.Line))
	}
	if e.Ahead > 0 {
		s += fmt.Sprintf(" (%d ahead", e.Ahead)
		if e.Blocker.Kind != "" {
			s += ", of kind " + e.Blocker.Kind
		}
		if o := e.Blocker.Owner; o != (Owner{}) {
			s += ", " + describe(o)
		}
		s += ")"
	}
	return safe(s + ": " + e.Err.Error())
}

func describe(o Owner) string {
	s := fmt.Sprintf("%s/%d", Printable(shorten(o.Host)), o.PID)
	if o.Label != "" {
		s += fmt.Sprintf(" %q", shorten(o.Label))
	}
	if !o.Since.IsZero() {
		s += " since " + o.Since.Format(time.RFC3339)
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// translate puts a driver's error into the words of this package; the service's own words stay in it.
func translate(err error) error {
	if _, done := err.(*said); done {
		return err
	}
	for _, w := range []struct{ from, to error }{
		{driver.ErrDenied, ErrDenied},
		{driver.ErrBusy, ErrBusy},
		{driver.ErrRemoved, ErrRemoved},
		{driver.ErrSessionEnded, ErrUnavailable},
		{context.DeadlineExceeded, ErrUnavailable},
	} {
		if err == w.from && err != context.DeadlineExceeded { // the caller wants to see that its time is up
			return w.to
		}
		if errors.Is(err, w.from) {
			return &said{w.to, err}
		}
	}
	return err
}

// shown is an error whose text is safe to show.
type shown struct{ error }

func (s *shown) Error() string { return safe(s.error.Error()) }
func (s *shown) Unwrap() error { return s.error }

// said is one of this package's errors with a driver's words for it.
type said struct{ what, words error }

func (s *said) Error() string   { return s.words.Error() }
func (s *said) Unwrap() []error { return []error{s.what, s.words} }

// silence is the error of a call that the service has not answered in time.
type silence struct {
	patience time.Duration
	error
}

func (s *silence) Error() string {
	text := fmt.Sprintf("%v: no answer within %v", ErrUnavailable, s.patience.Round(time.Millisecond))
	if more := strings.TrimPrefix(s.error.Error(), context.DeadlineExceeded.Error()); more != "" {
		text += ": " + strings.TrimPrefix(more, ": ")
	}
	return text
}

func (s *silence) Unwrap() error { return s.error }
