package otel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// client is what has to be known of one client from one event to the next. Its observer is told one thing at a time.
type client struct {
	*Telemetry
	spans spans
	waits map[string]series // by the node's ID
	holds map[turn]held
	sets  map[series]metric.MeasurementOption
}

// series is what is measured together.
type series struct{ line, recipe string }

func (s series) attributes(more ...attribute.KeyValue) metric.MeasurementOption {
	if s.line != "" {
		more = append(more, lineKey.String(s.line))
	}
	if s.recipe != "" {
		more = append(more, recipeKey.String(s.recipe))
	}
	return metric.WithAttributeSet(attribute.NewSet(more...))
}

// in returns the series of a node.
func (c *client) in(n coord.Node) series { return series{c.line(n.Line), recipe(n.Kind)} }

// of returns the attributes of a series. There are few.
func (c *client) of(in series) metric.MeasurementOption {
	set, ok := c.sets[in]
	if !ok {
		set = in.attributes()
		c.sets[in] = set
	}
	return set
}

// turn is a hold. Of a place that callers share each turn has a token of its own.
type turn struct {
	line  string
	token coord.Token
}

func turnOf(n coord.Node) turn { return turn{n.Line, n.Token} }

type held struct {
	series
	since time.Time
}

// Observer returns what a client has to be given, with coord.WithObserver. Each client takes one of its own.
func (t *Telemetry) Observer() *coord.Observer {
	c := &client{
		Telemetry: t, spans: newSpans(t.tracer),
		waits: make(map[string]series), holds: make(map[turn]held), sets: make(map[series]metric.MeasurementOption),
	}
	return &coord.Observer{
		Acquiring: c.spans.acquiring,
		SessionOpened: func(time.Time) {
			c.opened.Add(nowhere, 1)
			c.reached()
		},
		SessionEnded: func(_ time.Time, why error) {
			if why != nil {
				c.sessionsLost.Add(nowhere, 1)
			}
		},
		OpenFailed: func(at time.Time, _ error) {
			c.notOpened.Add(nowhere, 1)
			c.notReached(at)
		},
		Waiting: func(at time.Time, me coord.Node, ahead int) {
			c.spans.waiting(at, me, ahead)
			in := c.in(me)
			c.stands(in)
			c.waits[me.ID] = in
			c.waiting.Add(nowhere, 1, c.of(in))
		},
		Behind: func(_ time.Time, me, first coord.Node) { c.spans.behind(me, first) },
		Woken:  func(at time.Time, me coord.Node) { c.spans.woken(at, me) },
		Rejoining: func(_ time.Time, lost coord.Node) {
			c.spans.take(lost)
			c.waitEnds(lost)
		},
		GaveUp: func(at time.Time, me coord.Node, waited time.Duration, err error) {
			why := whyGivenUp(err)
			ctx := c.spans.gaveUp(at, me, waited, err, why)
			c.waitEnds(me)
			c.gaveUp.Add(ctx, 1, c.in(me).attributes(whyKey.String(why)))
		},
		Granted: func(at time.Time, me coord.Node, waited time.Duration) {
			ctx := c.spans.granted(at, me, waited)
			c.waitEnds(me)
			in := c.in(me)
			c.stands(in)
			c.waited.Record(ctx, waited.Seconds(), c.of(in))
			c.begins(me, held{in, at})
		},
		Amended: func(at time.Time, me coord.Node) {
			c.spans.amended(at, me)
			if h, ok := c.ends(turnOf(me)); ok {
				c.begins(me, held{c.in(me), h.since})
			}
		},
		Released: func(at time.Time, me coord.Node, lasted time.Duration) {
			ctx := c.spans.ended(at, turnOf(me), nil, "")
			if h, ok := c.ends(turnOf(me)); ok {
				c.held.Record(ctx, lasted.Seconds(), c.of(h.series))
			}
		},
		Lost: c.holdLost,
	}
}

// nowhere is the context of what happens outside of all spans.
var nowhere = context.Background()

func (c *client) holdLost(at time.Time, me coord.Node, err error) {
	why := whyLost(err)
	h, ok := c.ends(turnOf(me))
	if !ok {
		return
	}
	if at.Before(h.since) {
		at = h.since
	}
	ctx := c.spans.ended(at, turnOf(me), err, why)
	c.held.Record(ctx, at.Sub(h.since).Seconds(), c.of(h.series))
	c.lost.Add(ctx, 1, h.attributes(whyKey.String(why)))
}

// stands makes sure that who might lead has a series that says he does not.
func (c *client) stands(in series) {
	if in.recipe == "election" {
		c.leader.Add(nowhere, 0, series{line: in.line}.attributes())
	}
}

// waitEnds counts a node no more that had to wait. Many did not.
func (c *client) waitEnds(n coord.Node) {
	if in, ok := c.waits[n.ID]; ok {
		delete(c.waits, n.ID)
		c.waiting.Add(nowhere, -1, c.of(in))
	}
}

func (c *client) begins(n coord.Node, h held) {
	c.holds[turnOf(n)] = h
	c.count(h.series, 1)
}

func (c *client) ends(t turn) (h held, ok bool) {
	if h, ok = c.holds[t]; ok {
		delete(c.holds, t)
		c.count(h.series, -1)
	}
	return h, ok
}

func (c *client) count(in series, more int64) {
	c.holding.Add(nowhere, more, c.of(in))
	if in.recipe == "election" {
		c.leader.Add(nowhere, more, series{line: in.line}.attributes())
	}
}

func (c *client) reached() {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.away, c)
}

func (c *client) notReached(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.away[c]
	if a == nil || at.Sub(a.last) > forgetAfter {
		a = &absences{first: at}
		c.away[c] = a
	}
	a.last = at
}

func recipe(kind string) string {
	switch {
	case kind == rules.Lock:
		return "mutex"
	case kind == rules.Lead:
		return "election"
	case kind == rules.Reader:
		return "reader"
	case kind == rules.Writer:
		return "writer"
	case rules.IsPermits(kind):
		return "semaphore"
	}
	return "other"
}

func whyGivenUp(err error) string {
	switch {
	case errors.Is(err, coord.ErrUnavailable): // and that is why the time is up
		return "unreachable"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "_OTHER" // so it is called elsewhere, too
}

func whyLost(err error) string {
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
