// What a user of the metrics may write.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/observe/prom"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func main() {
	metrics := prom.New()
	prometheus.MustRegister(metrics)
	client := mem.New().Client(coord.WithObserver(metrics.Observer()))
	defer client.Close()
	err := mutex.New(client, "orders").Do(context.Background(), func(context.Context, *coord.Hold) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(families) > 0)
}
