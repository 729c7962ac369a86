package drivertest

import (
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// Service is one running service, with what the suite needs to know about it and do to it. The author of a driver fills it
// in. Connect, TTL and Stored are required. Anything else that is nil or zero is something the harness cannot do; the
// scenarios that need it are skipped and say so.
//
// All functions are called from several goroutines at once. Each scenario uses lines of its own, so that one service
// serves them all. A function that fails to do what it is asked to do reports that with t.Fatal.
type Service struct {
	// TTL is how long the service keeps a session that it hears nothing from, as granted. With 1 to 2 s the run stays short.
	// Where only the kernel reports a death (see driver.Strength), it is how long the scenarios wait to see that a session
	// goes on.
	TTL time.Duration

	// Grace is how much later than the TTL a dead session's nodes may go, because the service works in ticks. Zero means one
	// TTL.
	Grace time.Duration

	// Connect makes a driver with a link to the service that nobody else shares. When t ends, the harness heals the link,
	// closes the driver and takes the link down; closing the driver a second time must do no harm. The kernel must then let go
	// of what it holds for the link's process, such as abandoned sessions.
	Connect func(t testing.TB) *Link

	// Stored lists the raw names of everything that the service stores in a line, contender or not, but not that of
	// lines nested below it. It bypasses every link, so no fault touches it, and reads what is committed. It finds orphans,
	// because it also lists things that a driver does not recognize as its own.
	Stored func(t testing.TB, line string) []string

	// Remains lists the raw names of everything that the service still stores under the root that this harness uses,
	// in any line or none: parents of lines, and what sessions keep for themselves. The root itself does not count.
	Remains func(t testing.TB) []string

	// PlantForeign puts things that are not contenders where the line's nodes are, with names as misleading as the
	// service allows: some that sort before every node of the line, some after. They are taken away when t ends.
	PlantForeign func(t testing.TB, line string)

	// Meddle changes what the contenders' nodes in a line say, as somebody else with the right to do so would: it makes their
	// data longer.
	Meddle func(t testing.TB, line string)

	// Forget makes the service forget an empty line, as when a ZooKeeper container is reaped, so that the line's counter, if
	// it has one, starts over. It returns when that is done.
	Forget func(t testing.TB, line string)

	// NearEnd sets the counter that numbers the line's nodes to a little below the last value it can take.
	NearEnd func(t testing.TB, line string)

	// Restart ends the service as kill -9 does, starts it again on what it has kept, and returns when it serves. It is called
	// when everything else is over.
	Restart func(t testing.TB)

	// Failover takes away the machine that leads, and returns when another one has taken over; it is only for a service that
	// has another. It may bring the first one back as a follower. It is called when everything else is over.
	Failover func(t testing.TB)

	// Budget is what the driver may spend. The zero Budget is not checked.
	Budget Budget
}

// Link is a driver, with control over its link to the service.
type Link struct {
	driver.Driver

	// Fate sets what becomes of the next request on this link that creates, changes or deletes a node of a line. Calls queue
	// up, one for each request. met is closed when the request has met its fate: for LostBefore and AppliedLate when it has
	// been taken out, for LostAfter when it has been applied.
	Fate func(f Fate) (met <-chan struct{})

	// Freeze lets nothing pass in a direction, though connections stay open and new ones can be made: what is sent stays in
	// the link, and arrives after the thaw if its connection still stands. Freezes add up. Each ends with its own thaw, which
	// may be called twice.
	Freeze func(d Direction) (thaw func())

	// Cut resets the connections and refuses new ones until heal, which may be called twice.
	Cut func() (heal func())

	// Delay makes everything take this much longer each way, until restore is called.
	Delay func(each time.Duration) (restore func())

	// Expire makes the service end a session of this link without warning, whatever the state of the link, and returns when
	// the session's nodes have gone at the service.
	Expire func(t testing.TB, s driver.Session)

	// Kill has the effect that kill -9 of the driver's process has on the service: connections end, and the kernel lets go of
	// what it holds for the process. The link is not used after that. Kill is needed where the kernel reports a death;
	// elsewhere a Cut that is never healed looks the same.
	Kill func()

	// Traffic counts what has passed since the link was made.
	Traffic func() Traffic
}

// Fate is what becomes of one request.
type Fate int

const (
	// LostBefore: the service never sees the request. The driver sees a broken connection, an error of the service
	// that leaves the outcome open, or no answer at all, as is usual for the service.
	LostBefore Fate = iota + 1

	// LostAfter: the service applies the request, and the driver sees the same as with LostBefore.
	LostAfter

	// AppliedLate: the driver sees the same as with LostBefore, and the service applies the request Late afterwards,
	// behind requests that were sent meanwhile. If the service keeps a client's order, the harness treats it as LostAfter.
	AppliedLate
)

// Late is how much later the service applies a request with the fate AppliedLate.
const Late = 300 * time.Millisecond

func (f Fate) String() string {
	switch f {
	case LostBefore:
		return "lost before it was applied"
	case LostAfter:
		return "reply lost"
	case AppliedLate:
		return "applied late"
	}
	return "no fate"
}

// Direction is a way through a link.
type Direction int

const (
	Requests Direction            = 1 << iota // from the driver to the service
	Replies                                   // from the service to the driver, its events included
	Both     = Requests | Replies             // each way
)

// Traffic is what has passed through a link. Renewals, pings, the opening of connections and sessions, and the cancelling
// of watches count only in bytes.
type Traffic struct {
	Writes   int   // requests that change something; a transaction or multi is one
	Reads    int   // other requests: reads, and those that set a watch or a stream of events
	Events   int   // changes that the service reported unasked; two in one message count as two
	Sent     int64 // bytes from the driver
	Received int64 // bytes to the driver
}

// Sub returns what has passed since an earlier count.
func (t Traffic) Sub(earlier Traffic) Traffic {
	return Traffic{
		Writes:   t.Writes - earlier.Writes,
		Reads:    t.Reads - earlier.Reads,
		Events:   t.Events - earlier.Events,
		Sent:     t.Sent - earlier.Sent,
		Received: t.Received - earlier.Received,
	}
}

// Requests returns the number of requests of both sorts.
func (t Traffic) Requests() int { return t.Writes + t.Reads }

// Budget is the most that the driver may spend on the common operations, on a line it has used before.
type Budget struct {
	Join    Cost // joining an empty line, at the joiner's link
	Leave   Cost // leaving it as the holder, at the leaver's link
	Handoff Cost // at the waiter's link, from when the node ahead begins to leave as the holder until Await returns
}

// Cost is a number of requests and events, as in Traffic, and of round trips, which are fewer where requests are
// pipelined. Waiting for an event takes half a round trip, which is not counted.
type Cost struct {
	Writes, Reads, Events int
	Trips                 int
}

// Logger returns a logger for a driver that a harness makes. What the driver logs is shown if t fails.
func Logger(t testing.TB) *slog.Logger {
	w := &untilTheEnd{to: t.Output()}
	t.Cleanup(w.end)
	return slog.New(slog.NewTextHandler(w, nil))
}

// untilTheEnd drops what is logged after the end of the test, where it would cause a panic.
type untilTheEnd struct {
	mu sync.Mutex
	to io.Writer
}

func (w *untilTheEnd) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(text)
}

func (w *untilTheEnd) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = io.Discard
}
