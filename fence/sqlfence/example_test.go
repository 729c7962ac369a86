package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
	"github.com/turnwise/turnwise/fence/sqlfence"
)

// A transaction begins with Pass, and is the holder's from then on.
func ExampleFence_Pass() {
	var db *sql.DB       // sql.Open("pgx", …) at the start of the program
	var hold *coord.Hold // from a mutex.Mutex, or another recipe
	ctx := context.Background()
	fences, err := sqlfence.New(sqlfence.Postgres, "")
	if err != nil {
		log.Fatal(err)
	}
	if err := fences.Create(ctx, db); err != nil {
		log.Fatal(err)
	}

	save := func(total int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := fences.Pass(ctx, tx, "orders", fence.Stamp{Token: hold.Token()}); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE totals SET orders = $1", total); err != nil {
			return err
		}
		return tx.Commit()
	}
	if err := save(17); errors.Is(err, coord.ErrStale) {
		log.Print("somebody else holds by now, and nothing is written")
	}
}

// For a database administrator.
func ExampleFence_Schema() {
	fences, err := sqlfence.New(sqlfence.Postgres, "app.fences")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(fences.Schema())
	// Output:
	// CREATE TABLE IF NOT EXISTS "app"."fences" (
	// 	line  text COLLATE "C" PRIMARY KEY,
	// 	epoch bigint NOT NULL,
	// 	token bigint NOT NULL
	// );
}
