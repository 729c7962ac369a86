package nats_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/nats"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	locks, err := nats.Connect(ctx, "nats://localhost:4222")
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	err = mutex.New(locks, "orders/4711").Do(ctx, func(ctx context.Context, h *coord.Hold) error {
		fmt.Println("nobody else has", h.Node().Line)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// A service that must not forget asks for that, and gets an error where the server does not wait for its disk.
func ExampleWithMonitor() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	locks, err := nats.Connect(ctx, "nats://localhost:4222", nats.WithMonitor("http://localhost:8222"),
		nats.WithClient(coord.Require(coord.Strength{Restart: coord.Remembers})))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
}
