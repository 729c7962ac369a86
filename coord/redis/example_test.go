package redis_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/redis"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	locks, err := redis.Connect(ctx, "redis://localhost:6379/0")
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
