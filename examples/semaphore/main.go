// Semaphore shares three licences among six workers; some jobs take two.
//
//	go run ./examples/semaphore [URL of a service]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/semaphore"
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
	var inUse atomic.Int64
	var all sync.WaitGroup
	for i := range 6 {
		client, err := service.Connect(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
		licences, n := semaphore.New(client, "examples/licences", 3), int64(1+i%2)
		all.Go(func() {
			err := licences.Do(ctx, n, func(context.Context, *coord.Hold) error {
				fmt.Printf("job %d takes %d, in use: %d of 3\n", i, n, inUse.Add(n))
				time.Sleep(100 * time.Millisecond)
				inUse.Add(-n)
				return nil
			})
			if err != nil {
				log.Printf("job %d: %v", i, err)
			}
		})
	}
	all.Wait()
}
