package register_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/memory"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// A store of one's own carries all recipes. This one is in memory.
func ExampleNew() {
	var store register.Store = memory.NewStore()
	client := coord.NewClient(register.New(store, register.WithTTL(5*time.Second)))
	defer client.Close()

	err := mutex.New(client, "reports").Do(context.Background(), func(ctx context.Context, h *coord.Hold) error {
		fmt.Println("nobody else builds reports now")
		return nil
	})
	if err != nil {
		log.Print(err)
	}
	// Output: nobody else builds reports now
}
