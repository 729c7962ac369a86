// Package otel measures and traces what a program's clients do, with OpenTelemetry:
//
//	telemetry := otel.New()
//	client, err := zk.Connect(ctx, servers, zk.WithClient(coord.WithObserver(telemetry.Observer())))
//
// It needs OpenTelemetry's API alone. What is measured and traced goes to the providers that the program has set, or that it names with
// [MeterProvider] and [TracerProvider].
//
// The metrics are those of observe/prom. Each name below begins with turnwise.client.:
//
//	wait.duration{line,recipe}                s          histogram      how long those who were granted had waited
//	hold.duration{line,recipe}                s          histogram      how long holds lasted, released or lost
//	wait.active{line,recipe}                  {wait}     updowncounter  who wait in line now
//	hold.active{line,recipe}                  {hold}     updowncounter  who hold now
//	leader.active{line}                       {leader}   updowncounter  1 if a candidate of this program leads, 0 if it stands and does not
//	wait.abandoned{line,recipe,error.type}    {wait}     counter        waits without a turn: timeout, canceled, unreachable, _OTHER
//	hold.lost{line,recipe,error.type}         {hold}     counter        holds that ended before their release: removed, overdue, closed, session
//	session.opened                            {session}  counter        sessions that were opened
//	session.lost                              {session}  counter        sessions that ended with somebody in line
//	session.open_failures                     {failure}  counter        a session was wanted, and the service did not give one
//	session.unreachable                       s          gauge          for how long no session has been had though one is wanted; 0: that is not so
//
// The attributes line and recipe are called turnwise.line and turnwise.recipe. A recipe is mutex, election, reader, writer, semaphore,
// or other. There is no line unless [Lines] says what to write there: a program may have a million lines, and each value is a series
// that somebody keeps. A hold that is overdue has lasted for as long as MaxHold allows;
// one that is closed was neither released nor lost when its client was closed.
//
// Each acquire that had its turn, or gave up after it had to wait, is a span, from the call to its end, such as "acquire mutex".
// Its events are waiting, with how many nodes were ahead, woken, rejoining and granted, some hundred of them at most. One that gave up
// has the status Error. Each hold is a span from the grant to its release or loss, such as "hold mutex", with a link to the
// acquire's. A lost one has the status Error with the reason, and ends when the line was surely held for the last time, which may
// be a while before the loss was noticed.
//
// Both have the attributes turnwise.line, with the whole name, turnwise.recipe, turnwise.kind and turnwise.token. If there is a
// span in the context that was given to the call, it is the parent of both. Like an Observer, they tell nothing of a hold that is
// nested in another one. Of callers who share a place (see coord.Together) each has its own spans, and the first to be granted has
// the events of the place. A call that ends while it has no place has no span: because it has not reached the service, or has lost
// its place with its session and not come to another one.
//
// A client that has [Traceparent] as well shows to everybody who reads a line in which trace its callers are, and its acquires have a
// link to the trace of whoever was first in line when they began to wait, if that one shows it. That costs each wait a request:
//
//	zk.WithClient(coord.WithObserver(telemetry.Observer()), coord.WithTraces(otel.Traceparent))
//
// Spans end, and numbers are recorded, on the goroutine on which a client tells its observers. If a span processor or an exporter
// that works there is slow, it delays only what is told later, which takes memory meanwhile, and no hold. If one panics, or the
// function given to [Lines] does, nobody recovers: the program ends.
package otel

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/turnwise/turnwise/observe/measure"
)

// Option changes what is measured, or where it goes. A nil Option changes nothing.
type Option func(*Telemetry)

// Lines says what stands in the metrics' attribute turnwise.line, as a function that maps the names of many lines to a few words, such
// as the part before the first slash. After 200 different ones the rest is "others". Where it returns "" there is no attribute.
func Lines(label func(line string) string) Option {
	return func(t *Telemetry) {
		if label != nil {
			t.lines.Label = label
		}
	}
}

// MeterProvider has the metrics go there, and not to the global provider.
func MeterProvider(p metric.MeterProvider) Option {
	return func(t *Telemetry) {
		if p != nil {
			t.meters = p
		}
	}
}

// TracerProvider has the spans go there, and not to the global provider.
func TracerProvider(p trace.TracerProvider) Option {
	return func(t *Telemetry) {
		if p != nil {
			t.tracers = p
		}
	}
}

// Telemetry is where the observers of a program's clients send what they are told. It needs no goroutine.
type Telemetry struct {
	lines   measure.Lines
	away    measure.Outages
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	tracer  trace.Tracer

	waited, held                                  metric.Float64Histogram
	waiting, holding, leader                      metric.Int64UpDownCounter
	gaveUp, lost, opened, sessionsLost, notOpened metric.Int64Counter
}

// scope is the name of the meter and of the tracer.
const scope = "github.com/turnwise/turnwise/observe/otel"

// New returns a Telemetry for all clients of the program. It lasts as long as the provider of its metrics, which asks it for how long
// a service has been out of reach. To tell clients apart, have one for each, with providers whose resources differ. What the
// provider of metrics does not like goes to OpenTelemetry's error handler.
func New(opts ...Option) *Telemetry {
	t := &Telemetry{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, o := range opts {
		if o != nil {
			o(t)
		}
	}
	t.tracer = t.tracers.Tracer(scope)
	m := t.meters.Meter(scope)
	t.waited = duration(m, "wait.duration", "How long those who were granted had waited.")
	t.held = duration(m, "hold.duration", "How long holds lasted, released or lost.")
	t.waiting = active(m, "wait.active", "{wait}", "Who wait in line now.")
	t.holding = active(m, "hold.active", "{hold}", "Who hold now.")
	t.leader = active(m, "leader.active", "{leader}", "1 if a candidate of this program leads, 0 if it stands and does not.")
	t.gaveUp = counter(m, "wait.abandoned", "{wait}", "Waits that ended without a turn.")
	t.lost = counter(m, "hold.lost", "{hold}", "Holds that ended before they were released.")
	t.opened = counter(m, "session.opened", "{session}", "Sessions that were opened.")
	t.sessionsLost = counter(m, "session.lost", "{session}", "Sessions that ended with somebody in line.")
	t.notOpened = counter(m, "session.open_failures", "{failure}", "How often a session was wanted and the service did not give one.")
	handled(m.Float64ObservableGauge(prefix+"session.unreachable", metric.WithUnit("s"),
		metric.WithDescription("For how long no session has been had though one is wanted."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			o.Observe(t.away.Longest().Seconds())
			return nil
		})))
	return t
}

const prefix = "turnwise.client."

func duration(m metric.Meter, name, what string) metric.Float64Histogram {
	return handled(m.Float64Histogram(prefix+name, metric.WithUnit("s"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(measure.Buckets...)))
}

func active(m metric.Meter, name, unit, what string) metric.Int64UpDownCounter {
	return handled(m.Int64UpDownCounter(prefix+name, metric.WithUnit(unit), metric.WithDescription(what)))
}

func counter(m metric.Meter, name, unit, what string) metric.Int64Counter {
	return handled(m.Int64Counter(prefix+name, metric.WithUnit(unit), metric.WithDescription(what)))
}

// handled returns an instrument, which can be used even if there was an error.
func handled[I any](instrument I, err error) I {
	if err != nil {
		otel.Handle(err)
	}
	return instrument
}

const (
	lineKey   = attribute.Key("turnwise.line")
	recipeKey = attribute.Key("turnwise.recipe")
	kindKey   = attribute.Key("turnwise.kind")
	tokenKey  = attribute.Key("turnwise.token")
	aheadKey  = attribute.Key("turnwise.ahead")
	whyKey    = attribute.Key("error.type")
)
