package measure_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/observe/measure"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// An Observer for some other collector: here, one that prints.
func Example() {
	open := measure.NewOpen()
	observer := &coord.Observer{
		Granted: func(at time.Time, me coord.Node, _ time.Duration) {
			open.Begins(measure.TurnOf(me), measure.Held{Series: measure.Series{Line: me.Line, Recipe: measure.Recipe(me.Kind)}, Since: at})
		},
		Released: func(_ time.Time, me coord.Node, _ time.Duration) {
			if h, held := open.Ends(measure.TurnOf(me)); held {
				fmt.Println("released:", h.Recipe, h.Line)
			}
		},
		Lost: func(_ time.Time, me coord.Node, err error) {
			if h, held := open.Ends(measure.TurnOf(me)); held {
				fmt.Println("lost:", h.Recipe, h.Line, measure.WhyLost(err))
			}
		},
	}
	client := mem.New().Client(coord.WithObserver(observer))
	orders := mutex.New(client, "orders")
	if err := orders.Do(context.Background(), func(context.Context, *coord.Hold) error { return nil }); err != nil {
		log.Fatal(err)
	}
	h, err := orders.Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	client.Close()
	h.Release()
	// Output:
	// released: mutex orders
	// lost: mutex orders closed
}
