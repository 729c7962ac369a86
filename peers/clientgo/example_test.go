package clientgo_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/peers/clientgo"
	"github.com/turnwise/turnwise/recipes/election"
)

func Example() {
	client := mem.New(mem.WithTTL(30 * time.Second)).Client() // in your program kube.Connect, or that of another service
	defer client.Close()
	lock := clientgo.New(election.New(client, "reports"), "host-1")

	ctx, stop := context.WithCancel(context.Background())
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 100 * time.Millisecond, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { fmt.Println("leading"); stop() },
			OnStoppedLeading: func() { fmt.Println("no more") },
		},
	})
	// Output:
	// leading
	// no more
}
