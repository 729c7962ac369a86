package mem_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// What happens to a holder whose network fails? In a test under testing/synctest the TTL takes no time.
func ExampleService_Partition() {
	service := mem.New(mem.WithTTL(time.Second))
	defer service.Close()
	ctx := context.Background()

	unlucky := service.Client()
	hold, _ := mutex.New(unlucky, "orders").Lock(ctx)
	heal := service.Partition(unlucky)
	next, _ := mutex.New(service.Client(), "orders").Lock(ctx) // as soon as the session has expired
	fmt.Println("the old holder has stopped before:", hold.Err() != nil)
	fmt.Println("it was lost:", errors.Is(hold.Err(), coord.ErrLost))
	fmt.Println("the next one has a greater token:", next.Token() > hold.Token())
	heal()
	// Output:
	// the old holder has stopped before: true
	// it was lost: true
	// the next one has a greater token: true
}
