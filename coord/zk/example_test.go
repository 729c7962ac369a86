package zk_test

import (
	"context"
	"fmt"
	"log"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/zk"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func ExampleConnect() {
	ctx := context.Background()
	client, err := zk.Connect(ctx, []string{"zk1:2181", "zk2:2181", "zk3:2181"})
	if err != nil {
		log.Fatal(err) // it says what to do
	}
	defer client.Close()

	err = mutex.New(client, "orders/42").Do(ctx, func(ctx context.Context, h *coord.Hold) error {
		fmt.Println("nobody else works on this order now; my token is", h.Token())
		return nil
	})
	if err != nil {
		log.Print(err)
	}
}
