package otel_test

import (
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/observe/otel"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func ExampleNew() {
	meters := metric.NewMeterProvider()  // with a reader, such as metric.NewPeriodicReader(exporter)
	tracers := trace.NewTracerProvider() // with trace.WithBatcher(exporter)
	telemetry := otel.New(otel.MeterProvider(meters), otel.TracerProvider(tracers), otel.Lines(func(line string) string {
		kind, _, _ := strings.Cut(line, "/") // orders/4711 and a million others
		return kind
	}))

	client := mem.New().Client(coord.WithObserver(telemetry.Observer()))
	defer client.Close()
}

// What a turn costs without an observer, with this one where nobody collects anything, and with spans and metrics.
func BenchmarkTurn(b *testing.B) {
	collected := otel.New(
		otel.MeterProvider(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))),
		otel.TracerProvider(trace.NewTracerProvider()))
	for name, opts := range map[string][]coord.Option{
		"bare": nil, "told": {coord.WithObserver(otel.New().Observer())}, "collected": {coord.WithObserver(collected.Observer())},
	} {
		b.Run(name, func(b *testing.B) {
			m := mutex.New(mem.New().Client(opts...), "a")
			for b.Loop() {
				h, err := m.Lock(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				if err := h.Release(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
