package quorum_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/redis"
	"github.com/turnwise/turnwise/coord/redis/quorum"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	servers := []string{"redis-a:6379", "redis-b:6379", "redis-c:6379"}
	locks, err := quorum.Connect(ctx, servers, redis.WithTTL(5*time.Second))
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

// What an operator runs after a server was emptied, or restarted without having kept all that it answered.
func ExampleStore_Heal() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	q, err := quorum.Open(ctx, []string{"redis-a:6379", "redis-b:6379", "redis-c:6379"})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()
	if err := q.Heal(ctx); err != nil {
		log.Fatal(err)
	}
}
