// What a user of the store in NATS may write. It is run without a server, and says so.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/nats"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	client, err := nats.Connect(ctx, "nats://127.0.0.1:1")
	if err != nil {
		fmt.Println("no server:", err)
		return
	}
	defer client.Close()
	err = mutex.New(client, "orders").Do(ctx, func(context.Context, *coord.Hold) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
}
