// What somebody may write who uses turnwise, to be run against a release before it is one.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func main() {
	service := mem.New()
	defer service.Close()
	err := mutex.New(service.Client(), "orders").Do(context.Background(), func(_ context.Context, h *coord.Hold) error {
		fmt.Println("inside")
		return h.Err()
	})
	if err != nil {
		log.Fatal(err)
	}
}
