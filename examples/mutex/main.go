// Mutex lets three workers, each with a session of its own, take turns. Start it several times on the same service, kill
// some, and watch the others go on.
//
//	go run ./examples/mutex [URL of a service]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func main() {
	log.SetFlags(0)
	url := "file://" // a directory of the user's
	if len(os.Args) > 1 {
		url = os.Args[1]
	}
	service, err := backend.Parse(url)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	var workers sync.WaitGroup
	for _, name := range []string{"ann", "bob", "cyd"} {
		workers.Go(func() {
			if err := work(ctx, service, name); err != nil {
				log.Printf("%s: %v", name, err)
			}
		})
	}
	workers.Wait()
}

func work(ctx context.Context, service *backend.Service, name string) error {
	reach, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client, err := service.Connect(reach, backend.WithClient(coord.WithOwnerLabel(name)))
	if err != nil {
		return err
	}
	defer client.Close()

	orders := mutex.New(client, "examples/orders")
	for range 3 {
		err := orders.Do(ctx, func(ctx context.Context, h *coord.Hold) error {
			fmt.Printf("%s is inside with token %d\n", name, h.Token())
			select {
			case <-time.After(200 * time.Millisecond): // the work; it stops when the hold ends
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			fmt.Printf("%s leaves\n", name)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
