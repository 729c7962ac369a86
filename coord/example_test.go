package coord_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
)

// A recipe of your own: trains share a single track. Those in one direction may follow each other, those in the other
// have to wait.
func Example() {
	service := mem.New() // or zk.Connect, etcd.Connect
	defer service.Close()
	sameWay := coord.Rule{
		Sight: coord.Sight{Nearest: coord.All},
		WaitFor: func(me coord.Node, ahead []coord.Node) []coord.Node {
			for i := len(ahead) - 1; i >= 0; i-- {
				if ahead[i].Kind != me.Kind {
					return ahead[i : i+1] // the nearest that comes towards me
				}
			}
			return nil
		},
	}
	ctx := context.Background()
	enter := func(way string) (*coord.Hold, error) {
		return service.Client().TryAcquire(ctx, "track", way, nil, sameWay)
	}

	first, _ := enter("up")
	second, _ := enter("up")
	fmt.Println("the second goes after the first:", first.Token() < second.Token())
	_, err := enter("down")
	fmt.Println("one that comes towards them has to wait:", errors.Is(err, coord.ErrBusy))
	first.Release()
	second.Release()
	_, err = enter("down")
	fmt.Println("when the track is free:", err)
	// Output:
	// the second goes after the first: true
	// one that comes towards them has to wait: true
	// when the track is free: <nil>
}

// A program that its configuration leads to any service says what it needs of it.
func ExampleRequire() {
	service := mem.New() // it forgets everything when its process ends
	defer service.Close()
	c := service.Client(coord.Require(coord.Strength{Order: coord.FirstCome, Restart: coord.Remembers}))
	_, err := c.Line(context.Background(), "orders")
	fmt.Println(errors.Is(err, coord.ErrTooWeak))
	// Output: true
}

// An operator looks up who holds and who waits.
func ExampleClient_Line() {
	service := mem.New()
	defer service.Close()
	ctx := context.Background()
	exclusive := coord.Rule{WaitFor: func(_ coord.Node, ahead []coord.Node) []coord.Node { return ahead }}

	waiting := make(chan struct{})
	holder := service.Client(coord.WithOwnerLabel("billing"))
	waiter := service.Client(coord.WithOwnerLabel("reports"), coord.WithObserver(&coord.Observer{
		Waiting: func(time.Time, coord.Node, int) { close(waiting) },
	}))
	holder.Acquire(ctx, "orders", "lock", nil, exclusive)
	go waiter.Acquire(ctx, "orders", "lock", nil, exclusive)
	<-waiting

	nodes, _ := service.Client().Line(ctx, "orders")
	for _, n := range nodes {
		fmt.Printf("%s holds: %v\n", n.Owner.Label, n.Holds)
	}
	// Output:
	// billing holds: true
	// reports holds: false
}
