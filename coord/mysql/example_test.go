package mysql_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mysql"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func Example() {
	ctx := context.Background()
	client, err := mysql.Connect(ctx, "app:secret@tcp(db.internal:3306)/app?tls=true", mysql.WithTTL(5*time.Second))
	if err != nil {
		log.Fatal(err) // it says what to do
	}
	defer client.Close()

	err = mutex.New(client, "reports").Do(ctx, func(ctx context.Context, h *coord.Hold) error {
		fmt.Println("nobody else builds reports now; my token is", h.Token())
		return nil
	})
	if err != nil {
		log.Print(err)
	}
}
