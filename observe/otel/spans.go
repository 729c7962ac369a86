package otel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/observe/measure"
)

// spans are those of one client. It is told only afterwards that somebody has acquired, so an acquire's span begins when it ends, and
// until then its events are kept.
type spans struct {
	tracer trace.Tracer
	waits  map[string][]event               // by the node's ID
	links  map[string]trace.Link            // to whom they wait for, by the node's ID
	within map[measure.Turn]context.Context // of calls, from what they are told to what their client is told, at once
	holds  map[measure.Turn]trace.Span
}

// Traceparent returns the span in a call's context as W3C writes it, for coord.WithTraces: see the package's documentation.
func Traceparent(ctx context.Context) string {
	said := propagation.MapCarrier{}
	parents.Inject(ctx, said)
	return said[parentKey]
}

var parents propagation.TraceContext

const parentKey = "traceparent"

type event struct {
	name  string
	at    time.Time
	about []attribute.KeyValue
}

// mostEvents is how many one acquire has. A waiter may be woken for days.
const mostEvents = 100

func newSpans(tracer trace.Tracer) spans {
	return spans{tracer: tracer, waits: make(map[string][]event), links: make(map[string]trace.Link), within: make(map[measure.Turn]context.Context), holds: make(map[measure.Turn]trace.Span)}
}

// acquiring is called by whoever acquires, several at once perhaps. What it returns is told, just before the client, what only the call
// knows: in which context its spans begin, and which places it has lost. If it ends without a word, nothing of it is kept.
func (s *spans) acquiring(ctx context.Context) *coord.Observer {
	ctx = context.WithoutCancel(ctx)
	var before []event // at places that it has lost
	stands := func(me coord.Node) {
		if before != nil {
			s.waits[me.ID], before = before, nil
		}
	}
	ends := func(me coord.Node) {
		stands(me)
		s.within[measure.TurnOf(me)] = ctx
	}
	return &coord.Observer{
		Waiting: func(_ time.Time, me coord.Node, _ int) { stands(me) },
		Rejoining: func(at time.Time, lost coord.Node) {
			stands(lost)
			before = also(s.take(lost), event{"rejoining", at, []attribute.KeyValue{tokenKey.Int64(int64(lost.Token))}})
		},
		GaveUp:  func(_ time.Time, me coord.Node, _ time.Duration, _ error) { ends(me) },
		Granted: func(_ time.Time, me coord.Node, _ time.Duration) { ends(me) },
	}
}

// parent returns the context in which a call's spans begin. A place that callers share belongs to none of them.
func (s *spans) parent(t measure.Turn) context.Context {
	ctx, ok := s.within[t]
	if !ok {
		return nowhere
	}
	delete(s.within, t)
	return ctx
}

func (s *spans) waiting(at time.Time, me coord.Node, ahead int) {
	s.waits[me.ID] = also(s.waits[me.ID], event{"waiting", at, []attribute.KeyValue{aheadKey.Int(ahead)}})
}

func (s *spans) woken(at time.Time, me coord.Node) {
	s.waits[me.ID] = also(s.waits[me.ID], event{name: "woken", at: at})
}

// behind keeps a link to what whoever was first in line has said of his trace, if that can be one.
func (s *spans) behind(me, first coord.Node) {
	if _, waits := s.waits[me.ID]; !waits { // no more
		return
	}
	if link := trace.LinkFromContext(parents.Extract(nowhere, propagation.MapCarrier{parentKey: first.Trace})); link.SpanContext.IsValid() {
		link.Attributes = about(first)
		s.links[me.ID] = link
	}
}

// take returns what has happened to a node.
func (s *spans) take(n coord.Node) []event {
	events := s.waits[n.ID]
	delete(s.waits, n.ID)
	delete(s.links, n.ID)
	return events
}

// also leaves out what is too much.
func also(events []event, e event) []event {
	if len(events) >= mostEvents {
		return events
	}
	return append(events, e)
}

// acquired makes the span of a call that has its turn or gave up, of which about says more. Of a place that callers share, the events
// before the call are not its own.
func (s *spans) acquired(parent context.Context, at time.Time, n coord.Node, waited time.Duration, about trace.SpanStartOption) (context.Context, trace.Span) {
	began := at.Add(-waited)
	opts := []trace.SpanStartOption{trace.WithTimestamp(began), about}
	if link, ok := s.links[n.ID]; ok {
		opts = append(opts, trace.WithLinks(link))
	}
	ctx, span := s.tracer.Start(parent, "acquire "+measure.Recipe(n.Kind), opts...)
	for _, e := range s.take(n) {
		if !e.at.Before(began) {
			span.AddEvent(e.name, trace.WithTimestamp(e.at), trace.WithAttributes(e.about...))
		}
	}
	return ctx, span
}

// gaveUp, like those that follow, returns the context of the span that it has ended.
func (s *spans) gaveUp(at time.Time, me coord.Node, waited time.Duration, err error, why string) context.Context {
	ctx, span := s.acquired(s.parent(measure.TurnOf(me)), at, me, waited, trace.WithAttributes(about(me)...))
	fail(span, err, why)
	span.End(trace.WithTimestamp(at))
	return ctx
}

func (s *spans) granted(at time.Time, me coord.Node, waited time.Duration) context.Context {
	parent, about, now := s.parent(measure.TurnOf(me)), trace.WithAttributes(about(me)...), trace.WithTimestamp(at)
	ctx, span := s.acquired(parent, at, me, waited, about)
	span.AddEvent("granted", now)
	span.End(now)
	_, s.holds[measure.TurnOf(me)] = s.tracer.Start(parent, "hold "+measure.Recipe(me.Kind), now, about,
		trace.WithLinks(trace.LinkFromContext(ctx)))
	return ctx
}

func (s *spans) amended(at time.Time, me coord.Node) {
	if span, ok := s.holds[measure.TurnOf(me)]; ok {
		span.SetAttributes(about(me)...)
		span.AddEvent("amended", trace.WithTimestamp(at), trace.WithAttributes(kindKey.String(coord.Printable(me.Kind))))
	}
}

// ended is for a hold that was released, or is lost for a reason.
func (s *spans) ended(at time.Time, t measure.Turn, err error, why string) context.Context {
	span, ok := s.holds[t]
	if !ok {
		return nowhere
	}
	delete(s.holds, t)
	if err != nil {
		fail(span, err, why)
	}
	span.End(trace.WithTimestamp(at))
	return trace.ContextWithSpan(nowhere, span)
}

func fail(span trace.Span, err error, why string) {
	span.SetStatus(codes.Error, coord.Printable(err.Error()))
	span.SetAttributes(whyKey.String(why))
}

// about is what a span says of a node. What comes from elsewhere is made fit to be shown, and to be sent.
func about(n coord.Node) []attribute.KeyValue {
	return []attribute.KeyValue{
		lineKey.String(coord.Printable(n.Line)), recipeKey.String(measure.Recipe(n.Kind)), kindKey.String(coord.Printable(n.Kind)),
		tokenKey.Int64(int64(n.Token)),
	}
}
