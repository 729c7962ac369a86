package sharedfile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/fence"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/sharedfile"
)

// Change what is there: nobody else writes between Read and the end of Write.
func Example() {
	service := mem.New() // or file.Connect, zk.Connect, …
	defer service.Close()
	dir, err := os.MkdirTemp("", "prices")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	prices, err := sharedfile.Open(mutex.New(service.Client(), "prices"), filepath.Join(dir, "prices.json"))
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	set := func(product string, price int) error {
		return prices.Write(ctx, func(w io.Writer) error {
			table := make(map[string]int)
			err := prices.Read(ctx, func(r io.Reader) error { return json.NewDecoder(r).Decode(&table) })
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			table[product] = price
			return json.NewEncoder(w).Encode(table)
		})
	}
	fmt.Println(set("tea", 4), set("milk", 2))
	text, err := os.ReadFile(prices.Path())
	fmt.Print(string(text))
	fmt.Println(err)
	// Output:
	// <nil> <nil>
	// {"milk":2,"tea":4}
	// <nil>
}

// Somebody else holds the lock, such as the shell script that has started this process and told it the token.
func ExampleFile_Publish() {
	dir, err := os.MkdirTemp("", "prices")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	prices, err := sharedfile.Open(nil, filepath.Join(dir, "prices.json"))
	if err != nil {
		log.Fatal(err)
	}

	publish := func(token coord.Token) error {
		return prices.Publish(context.Background(), fence.Stamp{Token: token}, func(w io.Writer) error {
			_, err := io.WriteString(w, "{}")
			return err
		})
	}
	fmt.Println(publish(512))
	fmt.Println("who is late is refused:", errors.Is(publish(256), coord.ErrStale))
	// Output:
	// <nil>
	// who is late is refused: true
}
