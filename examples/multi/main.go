// Multi moves money between accounts: whoever moves some holds both accounts, whichever comes first in his order.
//
//	go run ./examples/multi [URL of a service]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/recipes/multi"
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
	accounts := map[string]int{"anna": 100, "bert": 100, "carl": 100}
	var all sync.WaitGroup
	for _, move := range [][2]string{{"anna", "bert"}, {"bert", "carl"}, {"carl", "anna"}, {"bert", "anna"}} {
		client, err := service.Connect(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
		from, to := move[0], move[1]
		both := multi.New(client, multi.Write("examples/accounts/"+from), multi.Write("examples/accounts/"+to))
		all.Go(func() {
			for range 5 {
				err := both.Do(ctx, func(context.Context, *multi.Hold) error {
					had := [2]int{accounts[from], accounts[to]}
					time.Sleep(5 * time.Millisecond) // time enough for somebody else to change one of them
					accounts[from], accounts[to] = had[0]-1, had[1]+1
					return nil
				})
				if err != nil {
					log.Printf("from %s to %s: %v", from, to, err)
				}
			}
		})
	}
	all.Wait()
	fmt.Println(accounts)
}
