// What a user of turnwise may write. It is run against a release before that is published.
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
