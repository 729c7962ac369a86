// What a user of the telemetry may write.
package main

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/observe/otel"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func main() {
	telemetry := otel.New(otel.MeterProvider(noop.NewMeterProvider()))
	client := mem.New().Client(coord.WithObserver(telemetry.Observer()))
	defer client.Close()
	err := mutex.New(client, "orders").Do(context.Background(), func(context.Context, *coord.Hold) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(true)
}
