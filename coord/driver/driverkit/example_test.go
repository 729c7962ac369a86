package driverkit_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// The caller of a join gives up while the request is under way. The node that comes of it after all is taken back.
func ExampleDeliver() {
	life := driverkit.NewLife(context.Background())
	ctx, giveUp := context.WithCancel(context.Background())
	answer := make(chan string) // from the service
	takenBack := make(chan string)

	giveUp()
	_, err := driverkit.Deliver(ctx, life,
		func(func() bool) (string, error) { return <-answer, nil },
		func(node string) { takenBack <- node })
	fmt.Println("the caller hears:", err)
	answer <- "node 7"
	fmt.Println("taken back:", <-takenBack)
	life.End(errors.New("closed"))
	life.Rest(context.Background())
	// Output:
	// the caller hears: context canceled
	// taken back: node 7
}

// A node that is not gone yet when its owner's context ends is taken away in the background.
func ExampleUntilGone() {
	life := driverkit.NewLife(context.Background())
	lost, gone := errors.New("connection lost"), make(chan struct{})
	tries := 0
	remove := func(context.Context) error {
		if tries++; tries < 3 {
			return lost
		}
		close(gone)
		return nil
	}

	ended, cancel := context.WithCancel(context.Background())
	cancel()
	err := driverkit.UntilGone(ended, life, remove, func(err error) bool { return err == lost })
	fmt.Println("the caller hears:", err)
	<-gone
	fmt.Println("gone after", tries, "tries")

	life.End(errors.New("expired"))
	err = driverkit.UntilGone(context.Background(), life, remove, nil)
	fmt.Println("the session's end takes the node, too:", errors.Is(err, driver.ErrSessionEnded))
	// Output:
	// the caller hears: context canceled
	// gone after 3 tries
	// the session's end takes the node, too: true
}
