// Package measure is for authors of Observers that measure, whoever collects the figures: what prom and otel have in common.
package measure

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// Buckets reach from a hand-off in memory to the lead of a night.
var Buckets = []float64{0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3600, 10_000, 36_000}

// Election is the recipe of those who lead.
const Election = "election"

// Recipe says whose a kind is; "other" if no recipe has it.
func Recipe(kind string) string {
	switch {
	case kind == rules.Lock:
		return "mutex"
	case kind == rules.Lead:
		return Election
	case kind == rules.Reader:
		return "reader"
	case kind == rules.Writer:
		return "writer"
	case rules.IsPermits(kind):
		return "semaphore"
	}
	return "other"
}

// WhyGivenUp sorts the errors of calls that end without a turn; "" if there is no word for it.
func WhyGivenUp(err error) string {
	switch {
	case errors.Is(err, coord.ErrUnavailable): // and that is why the time is up
		return "unreachable"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return ""
}

// WhyLost sorts the errors of holds that were lost.
func WhyLost(err error) string {
	switch {
	case errors.Is(err, coord.ErrRemoved):
		return "removed"
	case errors.Is(err, coord.ErrClosed):
		return "closed"
	case errors.Is(err, context.DeadlineExceeded): // of MaxHold
		return "overdue"
	}
	return "session"
}

// Lines maps the names of lines to few words. The zero value maps all to "".
type Lines struct {
	Label func(line string) string

	mu    sync.Mutex
	words map[string]struct{} // those there are
}

// mostLines is how many words there may be.
const mostLines = 200

// Of returns the word for a line: after mostLines different ones it is "others".
func (l *Lines) Of(name string) string {
	if l.Label == nil {
		return ""
	}
	word := strings.ToValidUTF8(l.Label(name), "\uFFFD")
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.words[word]; !known {
		if len(l.words) >= mostLines {
			return "others"
		}
		if l.words == nil {
			l.words = make(map[string]struct{})
		}
		l.words[word] = struct{}{}
	}
	return word
}

// Outages are of clients that lately could get no session. The zero value has none.
type Outages struct {
	mu   sync.Mutex
	away map[any]*outage
}

// outage is failures to open a session, one soon after the other.
type outage struct{ first, last time.Time }

// forgetAfter is when a failure counts no more. While somebody wants a session the next one comes after ten seconds or so.
const forgetAfter = 40 * time.Second

// Failed says that a client got no session.
func (o *Outages) Failed(client any, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	is := o.away[client]
	if is == nil || at.Sub(is.last) > forgetAfter {
		if o.away == nil {
			o.away = make(map[any]*outage)
		}
		is = &outage{first: at}
		o.away[client] = is
	}
	is.last = at
}

// Over says that a client has a session.
func (o *Outages) Over(client any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.away, client)
}

// Longest returns for how long the client that has been away for the longest has been so.
func (o *Outages) Longest() (longest time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for c, is := range o.away {
		if time.Since(is.last) > forgetAfter { // nobody wants a session any more
			delete(o.away, c)
			continue
		}
		longest = max(longest, time.Since(is.first))
	}
	return longest
}

// Series is what is measured together.
type Series struct{ Line, Recipe string }

// Turn is a hold. Of a place that callers share each turn has a token of its own.
type Turn struct {
	line  string
	token coord.Token
}

// TurnOf returns the turn of a node.
func TurnOf(n coord.Node) Turn { return Turn{n.Line, n.Token} }

// Held is a hold that has not ended.
type Held struct {
	Series
	Since time.Time
}

// Lasted is how long it has lasted if it ended then. It may have been lost before it was granted.
func (h Held) Lasted(until time.Time) time.Duration { return max(0, until.Sub(h.Since)) }

// Open is the waits and the holds of one client that have not ended. Its observer is told one thing at a time.
type Open struct {
	waits map[string]Series // by the node's ID
	holds map[Turn]Held
}

// NewOpen returns that of a client that has none.
func NewOpen() *Open { return &Open{make(map[string]Series), make(map[Turn]Held)} }

// Waits says that a node has to wait.
func (o *Open) Waits(n coord.Node, in Series) { o.waits[n.ID] = in }

// WaitEnds returns where the node waited. Many nodes did not.
func (o *Open) WaitEnds(n coord.Node) (in Series, waited bool) {
	in, waited = o.waits[n.ID]
	delete(o.waits, n.ID)
	return in, waited
}

// Begins says that a turn is held.
func (o *Open) Begins(t Turn, h Held) { o.holds[t] = h }

// Ends returns what the turn was.
func (o *Open) Ends(t Turn) (h Held, held bool) {
	h, held = o.holds[t]
	delete(o.holds, t)
	return h, held
}
