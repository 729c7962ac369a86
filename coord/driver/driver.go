// Package driver defines what a service must be able to do to carry turnwise's recipes.
//
// It is for authors of drivers. For a service that can compare and swap, write a register.Store instead: that is far less.
//
// The comments are the contract, and coord/drivertest checks it. The engine in coord is the only caller, and all of its
// waiting is this loop:
//
//	place, ahead, err := s.Join(ctx, entry)
//	if err != nil {
//		return err
//	}
//	for err == nil {
//		wait := rule.WaitFor(place.Node(), ahead)
//		if len(wait) == 0 {
//			return grant(place)
//		}
//		ahead, err = place.Await(ctx, wait)
//	}
//	place.Leave(background, false) // unless the session has ended
//
// How a driver learns of a change is its own affair: from an event that says it all, from an event and a point read, or
// by polling. So the budget of round trips is a matter of Join, Await and Leave, and the engine knows nothing of it.
//
// What drivers have in common is in package driverkit. Package rules says which rule a kind follows; it is for a driver
// that sees the whole line and may say whose turn it is.
package driver

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"
)

// Driver reaches one service. It is safe for concurrent use and keeps no lock state of its own: whatever can be lost
// lives in a [Session]. If the user made the service's own client and handed it in, it stays open after Close.
type Driver interface {
	// Open begins a session. It returns once the service has confirmed it, or when ctx ends. An error that no retry can
	// mend (credentials, permission, a service that speaks another protocol) wraps ErrDenied, or ErrMissing if what the
	// address names is not there; any other means "out of reach for now", and the engine tries again.
	Open(ctx context.Context) (Session, error)

	// Line returns the nodes of a line in order, with Owner and Data, no staler than the call. It leaves out children that
	// are not contenders, and the nodes of lines nested below. A line that nobody has used is empty. Line is on no hot
	// path and may take a read for each node. If the nodes say more than driverkit.LineBytes, some are returned without
	// Owner and Data.
	Line(ctx context.Context, line string) ([]Node, error)

	// First returns the first nodes of a line, at most so many (All: the whole line), with Owner and Data as Line does. If seen
	// is not nil it waits until these differ from seen.Nodes: one has come or gone, or differs in ID, Kind or Data. Of several
	// changes it may miss all but the last, but never the last. It is for callers that watch a line without standing in it,
	// so it needs no session. An error is trouble that may pass, unless it is ErrDenied or ctx has ended. If the service goes
	// out of reach while First waits, it soon returns such an error.
	First(ctx context.Context, line string, most int, seen *Look) (Look, error)

	// Lines returns, sorted, the names of lines that begin with prefix and hold at least one node.
	Lines(ctx context.Context, prefix string) ([]string, error)

	// Remove takes away this incarnation of a node, whoever owns it. It returns ErrRemoved if it was gone already. The engine
	// also calls it for a hold that is released after its session was abandoned.
	Remove(ctx context.Context, n Node) error

	// Memo returns the memo of a line, no staler than the call; nil if there is none. See Place.Remember.
	Memo(ctx context.Context, line string) ([]byte, error)

	// Forget takes away the memo of a line, whoever holds there.
	Forget(ctx context.Context, line string) error

	// RequestTimeout is the deadline of a single request to the service. Unless the user sets another with
	// coord.WithRequestTimeout, the engine allows a TryAcquire, a release or a look at a line this long.
	RequestTimeout() time.Duration

	// Strength is what the driver's service promises beyond this contract. It asks nobody and never changes: a
	// driver knows it before it has reached the service.
	Strength() Strength

	// Close ends every session, waits as long as ctx lasts for clean-ups under way, and frees what Open uses.
	Close(ctx context.Context) error
}

// Look is what First has seen.
type Look struct {
	Nodes []Node

	// At grows with the changes of the line: of two different looks, by whomever, the later one has the greater number. It is
	// zero if the service does not know the line.
	At uint64
}

// IsOf reports whether a look has shown these nodes, as far as they can change.
func (l Look) IsOf(nodes []Node) bool {
	return slices.EqualFunc(l.Nodes, nodes, func(a, b Node) bool {
		return a.ID == b.ID && a.Kind == b.Kind && bytes.Equal(a.Data, b.Data)
	})
}

// Recovering is a Driver on a service that may forget who holds. Then Open waits until nobody can believe in a hold that was
// forgotten.
type Recovering interface {
	Driver

	// Recovery returns for how much longer Open waits for that, as far as is known; zero: it does not.
	Recovery() time.Duration
}

// Session is what the service keeps alive for us: when it ends, for whatever reason, every node that joined through it
// goes. It is pinned: what was asked of one session is never done in another, not even a request that was still queued
// when the session ended.
//
// It is used by thousands of contenders at once, which share its connection, its renewal and its watches.
//
// A method returns when its ctx ends, whatever the service does, and returns ErrSessionEnded as soon as the session has
// ended. Each request inside has a shorter deadline of its own, and the driver rides out trouble that passes. So an
// error other than ctx's, ErrSessionEnded, ErrRemoved, ErrBusy and ErrDenied says that more waiting would not help.
type Session interface {
	// Join puts a node at the end of the line. It returns the place that it took, and the nodes ahead of it within
	// e.Sight, nearest last; those need no Owner and no Data. The look may show nodes that have gone; it never misses one
	// that still stands.
	//
	// Exactly once: success means one node; an error means none, now or later. When a reply is lost, the driver finds the
	// node or fences it off. It does so on a context of its own, even if ctx ended first, until that is done or the
	// session has ended. Other Joins of the session may run meanwhile and must not be confused with it. A Join that had
	// trouble, or took long, makes sure that its session is still alive before it returns.
	//
	// A try (see Entry.Free) that would have to wait returns ErrBusy and leaves no node. It is best to look before
	// joining, and no further than a Join looks. If a node was made, it is gone when Join returns; if ctx ended first, it
	// is taken away as after an error.
	Join(ctx context.Context, e Entry) (place Place, ahead []Node, err error)

	// Deadline returns the time until which the service surely keeps the session if nothing more is heard from it: the
	// time (monotonic) at which the last successful renewal was sent, plus the TTL as granted, less a margin for the drift
	// of clocks and the ticks of the service. A renewal counts only if it has reached the one that decides when the
	// session ends: one that a relay has answered, and may not have passed on, vouches for nothing. The deadline never
	// moves back; if the service grants less than before, the session is over. Where only the kernel tells of a death (see
	// Strength), no deadline passes by itself: it is years away. When the deadline passes, the engine ends all holds, but
	// the session may live on, and waiters keep their places. While nothing of the session stands in line, its deadline may
	// pass as well, if the next Join brings a new one. So may it while its nodes only wait, if each Await brings one that ends with
	// a turn; the session then has a method Rests() bool that says so, as long as it is in touch. Every Hold.Err reads the deadline,
	// so it must be cheap.
	Deadline() time.Time

	// Done is closed when the session is over for certain: refused by the service, closed or abandoned. A session that also has
	// a method Why() error says there why, for people to read, and whether that is ErrForgot.
	Done() <-chan struct{}

	// Close ends the session at the service, and all its nodes with it. The engine calls it only when nobody works
	// under one of its holds any more; otherwise it calls Abandon.
	Close(ctx context.Context) error

	// Abandon stops renewing and frees what the session uses in this process; its nodes stay until the service expires
	// them or, where only the kernel tells of a death, until the process ends: work may still run under its holds. But
	// first, for as long as ctx lasts, Abandon takes away the nodes that are being left, and those of joins that were
	// given up.
	Abandon(ctx context.Context)
}

// Place is one contender of ours in a line, from its Join until it has left. A driver keeps here what it has to
// remember of it. Calls may come from several goroutines at once. The engine never has two Amends, or an Amend and a
// Leave, under way together; but it may Watch meanwhile, and it may give up any call and then Leave.
//
// Its methods return as those of its Session do. Every place is left, also after ErrRemoved, unless its session ends
// first or its owner never lets go: Leave frees what the driver keeps of it. After a Leave only Node and Leave are called.
type Place interface {
	// Node is the contender as it joined or was last amended, with Owner and Data. Token and Line never change.
	Node() Node

	// Last reports whether the look that came with the Join showed nobody behind. It is false if the driver cannot tell.
	Last() bool

	// Await blocks until one of wait has left or was amended, then returns the nodes now ahead of me within sight, as
	// Join does. wait are nodes that the last look showed. It may return early, at the price of a look. It never sleeps
	// through a change: what happened between the caller's look and this call counts. Now and then it looks without having
	// been told of a change.
	//
	// When my own node has been removed while the session lives, it returns ErrRemoved, at once and before any answer that
	// might let me in.
	//
	// Hand-off without a look: if the last of wait left with held set (see Leave) and was right ahead of me, then nobody
	// is ahead. A driver that knows this need not ask the service. What others can bring about, by writing to a node or by
	// standing in line themselves, must never be mistaken for it.
	//
	// When ctx ends, nothing may stay behind that would pile up: share watches by node.
	Await(ctx context.Context, wait []Node) (ahead []Node, err error)

	// Watch is for a place that waits for nobody: it blocks until my own node has been removed while the session lives
	// (ErrRemoved), or the session or ctx ends. The engine uses it for a node that is held, and only if it is held for
	// long. A holder must hear of a removal even while a question to the service stalls: the hold ends first, and nobody
	// waits to learn why. Where the news may also mean that the session has ended, and nobody can be asked at once, it
	// returns ErrSessionEnded, although the session may yet turn out to live. An amendment is not a removal.
	Watch(ctx context.Context) error

	// Amend replaces Kind and Data and wakes those who await me. Token and place stay; the node's ID may change. The
	// driver retries it, and never creates the node again: if the node is gone, it returns ErrRemoved. An Amend that
	// changes nothing asks the service all the same, so that its success says that the node stands. After an error that
	// wraps ErrUnchanged the node is as it was, and stays so. After any other it is as it was or as asked, and Leave
	// removes it either way.
	Amend(ctx context.Context, kind string, data []byte) error

	// Remember writes the memo of the line: at most MaxMemo bytes that stay when all its nodes have gone. nil takes it away. It
	// is one write that the service makes only while this incarnation of the node stands, so that a process that has lost its
	// turn cannot write; after that it returns ErrRemoved. The driver retries it: only the holder of a line writes its memo, one
	// call at a time. After an error that wraps ErrUnchanged the memo is as it was. After any other it may have been written, or
	// be written yet, but not once another Remember, or Leave, has returned nil.
	Remember(ctx context.Context, memo []byte) error

	// Leave takes the node away, with one write. held says that I had my turn with nobody at all ahead of me, so that the
	// waiter right behind may enter on the news of it. Leave returns nil if the service confirmed it, or the node was
	// gone. On any error the driver goes on in the background until the node is gone or the session has ended. However
	// often it tries, it removes this incarnation only.
	Leave(ctx context.Context, held bool) error
}

// Recalling is a Place that reads the memo itself. A Driver may ask a server that lags, or that was leader once and does not know
// that there is a new one. A place in a session asks one that has shown it everything up to its turn.
type Recalling interface {
	// Recall returns the memo of the line, no older than the turn of whoever holds the place; nil if there is none.
	Recall(ctx context.Context) ([]byte, error)
}

// MaxMemo is the length of the longest memo.
const MaxMemo = 256

// Errors that a Driver, a Session or a Place may return. Wrap them together with the service's own words.
var (
	ErrSessionEnded = errors.New("session ended")         // the service has ended it, and its nodes with it
	ErrRemoved      = errors.New("node removed")          // by somebody else, such as an operator
	ErrBusy         = errors.New("line is busy")          // a try would have had to wait: see Entry.Free
	ErrDenied       = errors.New("denied by the service") // there is no right to it, or what stands there is not to be trusted
	ErrMissing      = errors.New("not there")             // what the address names at the service: a database, a directory
	ErrUnchanged    = errors.New("nothing has changed")   // besides another error, such as ErrDenied

	// ErrForgot says why a session has ended, besides ErrSessionEnded: what the service had answered may be gone. Nobody is let in
	// until the deadlines of all sessions have passed: see ForgetsOpenly.
	ErrForgot = errors.New("the store may have forgotten what it had stored")
)

// IsLasting reports whether an error says that no retry can mend it.
func IsLasting(err error) bool { return errors.Is(err, ErrDenied) || errors.Is(err, ErrMissing) }
