// Once has three workers, each with a session of its own, look again and again whether the job of the present second is to be
// done. One of them does it. Start it several times on the same service: still one.
//
//	go run ./examples/once [URL of a service]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/once"
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range 3 {
		client, err := service.Connect(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
		job := once.New(client, "examples/once", once.AtMostOnce)
		all.Go(func() {
			for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				slot := time.Now().Unix() // a number that grows, and is the same for all
				if _, err := job.Do(ctx, slot, func(context.Context, *coord.Hold) error {
					fmt.Printf("second %d: worker %d\n", slot, i)
					return nil
				}); err != nil {
					log.Printf("worker %d: %v", i, err)
				}
			}
		})
	}
	all.Wait()
}
