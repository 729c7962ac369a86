package prom

import (
	"context"
	"errors"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/rules"
)

// client is what has to be known of one client from one event to the next. Its observer is told one thing at a time.
type client struct {
	*Metrics
	waits map[string]series // by the node's ID
	holds map[turn]held
}

// series is what is measured together.
type series struct{ line, recipe string }

// in returns the series of a node.
func (c *client) in(n coord.Node) series { return series{c.line(n.Line), recipe(n.Kind)} }

// turn is a hold. Of a place that callers share each turn has a token of its own.
type turn struct {
	line  string
	token coord.Token
}

type held struct {
	series
	since time.Time
}

// Observer returns what a client has to be given, with coord.WithObserver. Each client takes one of its own.
func (m *Metrics) Observer() *coord.Observer {
	c := &client{Metrics: m, waits: make(map[string]series), holds: make(map[turn]held)}
	return &coord.Observer{
		SessionOpened: func(time.Time) {
			c.opened.Inc()
			c.reached()
		},
		SessionEnded: func(_ time.Time, why error) {
			if why != nil {
				c.sessionsLost.Inc()
			}
		},
		OpenFailed: func(at time.Time, _ error) {
			c.notOpened.Inc()
			c.notReached(at)
		},
		Waiting: func(_ time.Time, me coord.Node, _ int) {
			in := c.in(me)
			c.stands(me, in)
			c.waits[me.ID] = in
			c.waiting.WithLabelValues(in.line, in.recipe).Inc()
		},
		Rejoining: func(_ time.Time, lost coord.Node) { c.waitEnds(lost) },
		GaveUp: func(_ time.Time, me coord.Node, _ time.Duration, err error) {
			c.waitEnds(me)
			in := c.in(me)
			c.gaveUp.WithLabelValues(in.line, in.recipe, whyGivenUp(err)).Inc()
		},
		Granted: func(at time.Time, me coord.Node, waited time.Duration) {
			c.waitEnds(me)
			in := c.in(me)
			c.stands(me, in)
			c.waited.WithLabelValues(in.line, in.recipe).Observe(waited.Seconds())
			c.begins(me, held{in, at})
		},
		Amended: func(_ time.Time, me coord.Node) {
			if h, ok := c.ends(me); ok {
				c.begins(me, held{c.in(me), h.since})
			}
		},
		Released: func(_ time.Time, me coord.Node, lasted time.Duration) {
			if h, ok := c.ends(me); ok {
				c.held.WithLabelValues(h.line, h.recipe).Observe(lasted.Seconds())
			}
		},
		Lost: func(at time.Time, me coord.Node, err error) {
			if h, ok := c.ends(me); ok {
				c.held.WithLabelValues(h.line, h.recipe).Observe(max(0, at.Sub(h.since)).Seconds())
				c.lost.WithLabelValues(h.line, h.recipe, whyLost(err)).Inc()
			}
		},
	}
}

// stands makes sure that who might lead has a series that says he does not.
func (c *client) stands(n coord.Node, in series) {
	if n.Kind == rules.Lead {
		c.leader.WithLabelValues(in.line).Add(0)
	}
}

// waitEnds counts a node no more that had to wait. Many did not.
func (c *client) waitEnds(n coord.Node) {
	if in, ok := c.waits[n.ID]; ok {
		delete(c.waits, n.ID)
		c.waiting.WithLabelValues(in.line, in.recipe).Dec()
	}
}

func (c *client) begins(n coord.Node, h held) {
	c.holds[turn{n.Line, n.Token}] = h
	c.count(h.series, 1)
}

func (c *client) ends(n coord.Node) (h held, ok bool) {
	t := turn{n.Line, n.Token}
	if h, ok = c.holds[t]; ok {
		delete(c.holds, t)
		c.count(h.series, -1)
	}
	return h, ok
}

func (c *client) count(in series, more float64) {
	c.holding.WithLabelValues(in.line, in.recipe).Add(more)
	if in.recipe == "election" {
		c.leader.WithLabelValues(in.line).Add(more)
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
	return "other"
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
