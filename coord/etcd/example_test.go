package etcd_test

import (
	"context"
	"fmt"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/etcd"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func ExampleConnect() {
	ctx := context.Background()
	locks, err := etcd.Connect(ctx, clientv3.Config{Endpoints: []string{"localhost:2379"}}, etcd.WithTTL(15*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	err = mutex.New(locks, "orders/4711").Do(ctx, func(ctx context.Context, h *coord.Hold) error {
		fmt.Println("alone with order 4711, token", h.Token())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
