// What a user of package backend may write.
package main

import (
	"context"
	"log"
	"os"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func main() {
	dir, err := os.MkdirTemp("", "consumer")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	client, err := backend.Open(context.Background(), "file://"+dir+"/locks")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = mutex.New(client, "orders").Do(context.Background(), func(context.Context, *coord.Hold) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
}
