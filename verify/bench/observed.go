package main

import (
	"io"
	"log/slog"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/observe/otel"
	"github.com/turnwise/turnwise/observe/prom"
	"github.com/turnwise/turnwise/observe/slogobs"
)

// exporters are what a program may give its client, each with what it sends things on to.
var exporters = []struct {
	name     string
	observer func() *coord.Observer // a new one for each client
}{
	{"unobserved", func() *coord.Observer { return nil }},
	{"slogobs", func() *coord.Observer { return slogobs.New(slog.New(slog.NewTextHandler(io.Discard, nil))) }},
	{"prom", func() *coord.Observer {
		m := prom.New()
		prometheus.NewRegistry().MustRegister(m)
		return m.Observer()
	}},
	{"otel, metrics", func() *coord.Observer { return otel.New(measured()).Observer() }},
	{"otel, metrics and spans", func() *coord.Observer {
		return otel.New(measured(), otel.TracerProvider(trace.NewTracerProvider(trace.WithBatcher(tracetest.NewNoopExporter())))).Observer()
	}},
}

func measured() otel.Option {
	return otel.MeterProvider(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())))
}

// observed measures what it costs that somebody is told of each turn.
func observed(b *bench, w *Work) ([]Result, error) {
	ours := slices.DeleteFunc(roster(), func(p *Contestant) bool { return !p.Ours || p.Together > 0 || !w.on(p.Service) })
	var all []Result
	for _, p := range ours {
		var players []*Contestant
		for _, e := range exporters {
			player := *p
			player.Name, player.Observer = e.name, e.observer
			if b.plays(&player) {
				players = append(players, &player)
			}
		}
		all = append(all, b.measure(w, w.Cases[0], players)...)
		if err := b.ctx.Err(); err != nil {
			return nil, err
		}
	}
	return all, nil
}
