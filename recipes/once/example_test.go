package once_test

import (
	"context"
	"fmt"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/once"
)

func Example() {
	service := mem.New() // or zk.Connect, etcd.Connect
	defer service.Close()

	const batch = 7 // a number that grows, and is the same for all who may run it
	for range 2 {   // two processes, say, or one that was started again
		job := once.New(service.Client(), "nightly", once.AtMostOnce)
		ran, err := job.Do(context.Background(), batch, func(ctx context.Context, h *coord.Hold) error {
			fmt.Println("running batch", batch)
			return nil
		})
		fmt.Println(ran, err)
	}
	// Output:
	// running batch 7
	// true <nil>
	// false <nil>
}
