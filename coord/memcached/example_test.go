package memcached_test

import (
	"context"
	"fmt"
	"log"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/memcached"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func Example() {
	ctx := context.Background()
	client, err := memcached.Connect(ctx, "cache.internal:11211")
	if err != nil {
		log.Fatal(err) // it says what to do
	}
	defer client.Close()

	err = mutex.New(client, "reports").Do(ctx, func(ctx context.Context, h *coord.Hold) error {
		fmt.Println("nobody else builds reports now; my token is", h.Token())
		return nil
	})
	if err != nil {
		log.Print(err)
	}
}
