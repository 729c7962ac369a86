package otel

import (
	"cmp"
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/observe/measure"
)

// client is what has to be known of one client from one event to the next.
type client struct {
	*Telemetry
	spans spans
	open  *measure.Open
	sets  map[measure.Series]metric.MeasurementOption
}

func attributes(of measure.Series, more ...attribute.KeyValue) metric.MeasurementOption {
	if of.Line != "" {
		more = append(more, lineKey.String(of.Line))
	}
	if of.Recipe != "" {
		more = append(more, recipeKey.String(of.Recipe))
	}
	return metric.WithAttributeSet(attribute.NewSet(more...))
}

// in returns the series of a node.
func (c *client) in(n coord.Node) measure.Series {
	return measure.Series{Line: c.lines.Of(n.Line), Recipe: measure.Recipe(n.Kind)}
}

// of returns the attributes of a series. There are few.
func (c *client) of(in measure.Series) metric.MeasurementOption {
	set, ok := c.sets[in]
	if !ok {
		set = attributes(in)
		c.sets[in] = set
	}
	return set
}

// Observer returns what a client has to be given, with coord.WithObserver. One does for several clients.
func (t *Telemetry) Observer() *coord.Observer {
	o := t.observer()
	o.ForClient = t.observer
	return o
}

// observer is that of one client.
func (t *Telemetry) observer() *coord.Observer {
	c := &client{
		Telemetry: t, spans: newSpans(t.tracer), open: measure.NewOpen(), sets: make(map[measure.Series]metric.MeasurementOption),
	}
	return &coord.Observer{
		Acquiring: c.spans.acquiring,
		SessionOpened: func(time.Time) {
			c.opened.Add(nowhere, 1)
			c.away.Over(c)
		},
		SessionEnded: func(_ time.Time, why error) {
			if why != nil {
				c.sessionsLost.Add(nowhere, 1)
			}
		},
		OpenFailed: func(at time.Time, _ error) {
			c.notOpened.Add(nowhere, 1)
			c.away.Failed(c, at)
		},
		Waiting: func(at time.Time, me coord.Node, ahead int) {
			c.spans.waiting(at, me, ahead)
			in := c.in(me)
			c.stands(in)
			c.open.Waits(me, in)
			c.waiting.Add(nowhere, 1, c.of(in))
		},
		Behind: func(_ time.Time, me, first coord.Node) { c.spans.behind(me, first) },
		Woken:  func(at time.Time, me coord.Node) { c.spans.woken(at, me) },
		Rejoining: func(_ time.Time, lost coord.Node) {
			c.spans.take(lost)
			c.waitEnds(lost)
		},
		GaveUp: func(at time.Time, me coord.Node, waited time.Duration, err error) {
			why := cmp.Or(measure.WhyGivenUp(err), "_OTHER") // so it is called elsewhere, too
			ctx := c.spans.gaveUp(at, me, waited, err, why)
			c.waitEnds(me)
			c.gaveUp.Add(ctx, 1, attributes(c.in(me), whyKey.String(why)))
		},
		Granted: func(at time.Time, me coord.Node, waited time.Duration) {
			ctx := c.spans.granted(at, me, waited)
			c.waitEnds(me)
			in := c.in(me)
			c.stands(in)
			c.waited.Record(ctx, waited.Seconds(), c.of(in))
			c.begins(me, measure.Held{Series: in, Since: at})
		},
		Amended: func(at time.Time, me coord.Node) {
			c.spans.amended(at, me)
			if h, ok := c.ends(measure.TurnOf(me)); ok {
				c.begins(me, measure.Held{Series: c.in(me), Since: h.Since})
			}
		},
		Released: func(at time.Time, me coord.Node, lasted time.Duration) {
			ctx := c.spans.ended(at, measure.TurnOf(me), nil, "")
			if h, ok := c.ends(measure.TurnOf(me)); ok {
				c.held.Record(ctx, lasted.Seconds(), c.of(h.Series))
			}
		},
		Lost: c.holdLost,
	}
}

// nowhere is the context of what happens outside of all spans.
var nowhere = context.Background()

func (c *client) holdLost(at time.Time, me coord.Node, err error) {
	why := measure.WhyLost(err)
	h, ok := c.ends(measure.TurnOf(me))
	if !ok {
		return
	}
	lasted := h.Lasted(at)
	ctx := c.spans.ended(h.Since.Add(lasted), measure.TurnOf(me), err, why)
	c.held.Record(ctx, lasted.Seconds(), c.of(h.Series))
	c.lost.Add(ctx, 1, attributes(h.Series, whyKey.String(why)))
}

// stands makes sure that who might lead has a series that says he does not.
func (c *client) stands(in measure.Series) {
	if in.Recipe == measure.Election {
		c.leader.Add(nowhere, 0, attributes(measure.Series{Line: in.Line}))
	}
}

// waitEnds counts a node no more that had to wait. Many did not.
func (c *client) waitEnds(n coord.Node) {
	if in, waited := c.open.WaitEnds(n); waited {
		c.waiting.Add(nowhere, -1, c.of(in))
	}
}

func (c *client) begins(n coord.Node, h measure.Held) {
	c.open.Begins(measure.TurnOf(n), h)
	c.count(h.Series, 1)
}

func (c *client) ends(t measure.Turn) (h measure.Held, held bool) {
	if h, held = c.open.Ends(t); held {
		c.count(h.Series, -1)
	}
	return h, held
}

func (c *client) count(in measure.Series, more int64) {
	c.holding.Add(nowhere, more, c.of(in))
	if in.Recipe == measure.Election {
		c.leader.Add(nowhere, more, attributes(measure.Series{Line: in.Line}))
	}
}
