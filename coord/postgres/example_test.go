package postgres_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/postgres"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func ExampleConnect() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	locks, err := postgres.Connect(ctx, "postgres://app@localhost/app")
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	err = mutex.New(locks, "orders/4711").Do(ctx, func(ctx context.Context, h *coord.Hold) error {
		fmt.Println("inside, with token", h.Token())
		return nil
	})
	if err != nil {
		log.Print(err)
	}
}

// For a role that may not make tables: have somebody run what it prints.
func ExampleSchema() {
	for _, line := range strings.Split(postgres.Schema("locks.registers"), "\n")[1:5] {
		fmt.Println(line)
	}
	// Output:
	// IF pg_catalog.to_regclass('"locks"."registers"'::pg_catalog.text) IS NOT NULL THEN
	// 	RETURN;
	// END IF;
	// CREATE TABLE "locks"."registers" (
}
