// What a user of the stores in Redis may write. It is run without a server, and says so.
package main

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

func main() {
	lock(func(ctx context.Context) (*coord.Client, error) { return redis.Connect(ctx, "127.0.0.1:1") })
	lock(func(ctx context.Context) (*coord.Client, error) {
		return quorum.Connect(ctx, []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, redis.WithTTL(time.Minute), redis.WithLongestTTL(time.Minute))
	})
}

func lock(connect func(context.Context) (*coord.Client, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	client, err := connect(ctx)
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
