//go:build linux || darwin

package file_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/turnwise/turnwise/coord/file"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func Example() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "locks")
	defer os.RemoveAll(dir)

	client, err := file.Connect(ctx, filepath.Join(dir, "locks"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	hold, err := mutex.New(client, "orders/42").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held:", hold.Err() == nil)
	fmt.Println("released:", hold.Release() == nil)
	// Output:
	// held: true
	// released: true
}
