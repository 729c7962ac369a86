package backend_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// The service is a matter of configuration.
func ExampleOpen() {
	ctx := context.Background()
	client, err := backend.Open(ctx, os.Getenv("LOCKS")) // such as etcd://etcd-1,etcd-2,etcd-3/locks
	if err != nil {
		log.Fatal(err)
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
