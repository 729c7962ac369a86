package prom

import (
	"cmp"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/observe/measure"
)

// client is what has to be known of one client from one event to the next.
type client struct {
	*Metrics
	open *measure.Open
}

// in returns the series of a node.
func (c *client) in(n coord.Node) measure.Series {
	return measure.Series{Line: c.lines.Of(n.Line), Recipe: measure.Recipe(n.Kind)}
}

// Observer returns what a client has to be given, with coord.WithObserver. One does for several clients.
func (m *Metrics) Observer() *coord.Observer {
	o := m.observer()
	o.ForClient = m.observer
	return o
}

// observer is that of one client.
func (m *Metrics) observer() *coord.Observer {
	c := &client{m, measure.NewOpen()}
	return &coord.Observer{
		SessionOpened: func(time.Time) {
			c.opened.Inc()
			c.away.Over(c)
		},
		SessionEnded: func(_ time.Time, why error) {
			if why != nil {
				c.sessionsLost.Inc()
			}
		},
		OpenFailed: func(at time.Time, _ error) {
			c.notOpened.Inc()
			c.away.Failed(c, at)
		},
		Waiting: func(_ time.Time, me coord.Node, _ int) {
			in := c.in(me)
			c.stands(in)
			c.open.Waits(me, in)
			c.waiting.WithLabelValues(in.Line, in.Recipe).Inc()
		},
		Rejoining: func(_ time.Time, lost coord.Node) { c.waitEnds(lost) },
		GaveUp: func(_ time.Time, me coord.Node, _ time.Duration, err error) {
			c.waitEnds(me)
			in := c.in(me)
			c.gaveUp.WithLabelValues(in.Line, in.Recipe, cmp.Or(measure.WhyGivenUp(err), "other")).Inc()
		},
		Granted: func(at time.Time, me coord.Node, waited time.Duration) {
			c.waitEnds(me)
			in := c.in(me)
			c.stands(in)
			c.waited.WithLabelValues(in.Line, in.Recipe).Observe(waited.Seconds())
			c.begins(me, measure.Held{Series: in, Since: at})
		},
		Amended: func(_ time.Time, me coord.Node) {
			if h, ok := c.ends(me); ok {
				c.begins(me, measure.Held{Series: c.in(me), Since: h.Since})
			}
		},
		Released: func(_ time.Time, me coord.Node, lasted time.Duration) {
			if h, ok := c.ends(me); ok {
				c.held.WithLabelValues(h.Line, h.Recipe).Observe(lasted.Seconds())
			}
		},
		Lost: func(at time.Time, me coord.Node, err error) {
			if h, ok := c.ends(me); ok {
				c.held.WithLabelValues(h.Line, h.Recipe).Observe(h.Lasted(at).Seconds())
				c.lost.WithLabelValues(h.Line, h.Recipe, measure.WhyLost(err)).Inc()
			}
		},
	}
}

// stands makes sure that who might lead has a series that says he does not.
func (c *client) stands(in measure.Series) {
	if in.Recipe == measure.Election {
		c.leader.WithLabelValues(in.Line).Add(0)
	}
}

// waitEnds counts a node no more that had to wait. Many did not.
func (c *client) waitEnds(n coord.Node) {
	if in, waited := c.open.WaitEnds(n); waited {
		c.waiting.WithLabelValues(in.Line, in.Recipe).Dec()
	}
}

func (c *client) begins(n coord.Node, h measure.Held) {
	c.open.Begins(measure.TurnOf(n), h)
	c.count(h.Series, 1)
}

func (c *client) ends(n coord.Node) (h measure.Held, held bool) {
	if h, held = c.open.Ends(measure.TurnOf(n)); held {
		c.count(h.Series, -1)
	}
	return h, held
}

func (c *client) count(in measure.Series, more float64) {
	c.holding.WithLabelValues(in.Line, in.Recipe).Add(more)
	if in.Recipe == measure.Election {
		c.leader.WithLabelValues(in.Line).Add(more)
	}
}
