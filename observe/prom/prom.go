// Package prom measures what a program's clients do, for Prometheus:
//
//	metrics := prom.New()
//	prometheus.MustRegister(metrics)
//	client, err := zk.Connect(ctx, servers, zk.WithClient(coord.WithObserver(metrics.Observer())))
//
// Each name below begins with turnwise_client_:
//
//	waited_seconds{line,recipe}               histogram  how long those who were granted had waited
//	held_seconds{line,recipe}                 histogram  how long holds lasted, released or lost
//	waiting{line,recipe}                      gauge      who wait in line now
//	holding{line,recipe}                      gauge      who hold now
//	leader{line}                              gauge      1 if a candidate of this program leads, 0 if it stands and does not
//	gave_up_total{line,recipe,reason}         counter    waits without a turn: timeout, canceled, unreachable, other
//	lost_total{line,recipe,reason}            counter    holds that ended before their release: removed, overdue, closed, session
//	sessions_opened_total                     counter    sessions that were opened
//	sessions_lost_total                       counter    sessions that ended with somebody in line
//	open_failures_total                       counter    a session was wanted, and the service did not give one
//	unreachable_seconds                       gauge      for how long no session has been had though one is wanted; 0: that is not so
//
// A recipe is mutex, election, reader, writer, semaphore, or other. The label line is empty unless [Lines] says what to write there:
// a program may have a million lines, and each label is a series that Prometheus keeps.
//
// What other programs do is not known here; `turnwise serve` shows all lines of a service, whoever holds them.
package prom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/turnwise/turnwise/observe/measure"
)

// Option changes what is measured. A nil Option changes nothing.
type Option func(*Metrics)

// Lines says what stands in the label line, as a function that maps the names of many lines to a few words, such as the part before
// the first slash. After 200 different ones the rest is "others".
func Lines(label func(line string) string) Option {
	return func(m *Metrics) {
		if label != nil {
			m.lines.Label = label
		}
	}
}

// Metrics is a prometheus.Collector. It needs no goroutine, and asks nobody when it is collected.
type Metrics struct {
	lines measure.Lines
	away  measure.Outages

	waited, held                    *prometheus.HistogramVec
	waiting, holding, leader        *prometheus.GaugeVec
	gaveUp, lost                    *prometheus.CounterVec
	opened, sessionsLost, notOpened prometheus.Counter
	unreachable                     *prometheus.Desc
	all                             []prometheus.Collector
}

// New returns metrics of which nothing has been measured yet. To tell clients apart, have metrics for each, and register them with
// prometheus.WrapRegistererWith.
func New(opts ...Option) *Metrics {
	m := new(Metrics)
	for _, o := range opts {
		if o != nil {
			o(m)
		}
	}
	who := []string{"line", "recipe"}
	m.waited = histogram(m, "waited_seconds", "How long those who were granted had waited.", who)
	m.held = histogram(m, "held_seconds", "How long holds lasted, released or lost.", who)
	m.waiting = gauge(m, "waiting", "Who wait in line now.", who)
	m.holding = gauge(m, "holding", "Who hold now.", who)
	m.leader = gauge(m, "leader", "1 if a candidate of this program leads, 0 if it stands and does not.", who[:1])
	m.gaveUp = counters(m, "gave_up_total", "Waits that ended without a turn.", append(who, "reason"))
	m.lost = counters(m, "lost_total", "Holds that ended before they were released.", append(who, "reason"))
	m.opened = counter(m, "sessions_opened_total", "Sessions that were opened.")
	m.sessionsLost = counter(m, "sessions_lost_total", "Sessions that ended with somebody in line.")
	m.notOpened = counter(m, "open_failures_total", "How often a session was wanted and the service did not give one.")
	m.unreachable = prometheus.NewDesc(prefix+"unreachable_seconds",
		"For how long no session has been had though one is wanted.", nil, nil)
	return m
}

const prefix = "turnwise_client_"

func with[C prometheus.Collector](m *Metrics, c C) C {
	m.all = append(m.all, c)
	return c
}

func histogram(m *Metrics, name, help string, labels []string) *prometheus.HistogramVec {
	return with(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: measure.Buckets}, labels))
}

func gauge(m *Metrics, name, help string, labels []string) *prometheus.GaugeVec {
	return with(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels))
}

func counters(m *Metrics, name, help string, labels []string) *prometheus.CounterVec {
	return with(m, prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels))
}

func counter(m *Metrics, name, help string) prometheus.Counter {
	return with(m, prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help}))
}

// Describe is for the registry.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.all {
		c.Describe(to)
	}
	to <- m.unreachable
}

// Collect is for the registry.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.all {
		c.Collect(to)
	}
	to <- prometheus.MustNewConstMetric(m.unreachable, prometheus.GaugeValue, m.away.Longest().Seconds())
}
