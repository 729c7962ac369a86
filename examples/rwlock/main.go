// Rwlock guards a file that several clients read and one at a time replaces. A writer goes on as a reader of what it has
// written, so nobody can replace the file in between.
//
//	go run ./examples/rwlock [URL of a service]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/rwlock"
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
	dir, err := os.MkdirTemp("", "turnwise")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "report")

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for _, role := range []func(context.Context, *rwlock.RWLock, string) error{write, read, read, write, read} {
		client, err := service.Connect(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
		all.Go(func() {
			if err := role(ctx, rwlock.New(client, "examples/report"), path); err != nil {
				log.Print(err)
			}
		})
	}
	all.Wait()
}

func write(ctx context.Context, lock *rwlock.RWLock, path string) error {
	h, err := lock.Lock(ctx)
	if err != nil {
		return err
	}
	defer h.Release()
	if err := os.WriteFile(path, fmt.Appendf(nil, "version %d", h.Token()), 0o600); err != nil {
		return err
	}
	fmt.Printf("wrote version %d\n", h.Token())
	if err := lock.Downgrade(ctx, h); err != nil {
		return err
	}
	return show(path)
}

func read(ctx context.Context, lock *rwlock.RWLock, path string) error {
	return lock.RDo(ctx, func(context.Context, *coord.Hold) error { return show(path) })
}

func show(path string) error {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		text = []byte("nothing yet")
	} else if err != nil {
		return err
	}
	fmt.Printf("read %s\n", text)
	time.Sleep(50 * time.Millisecond)
	return nil
}
