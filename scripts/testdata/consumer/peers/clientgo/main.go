// What a program on client-go's leader election may write.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/peers/clientgo"
	"github.com/turnwise/turnwise/recipes/election"
)

func main() {
	client := mem.New(mem.WithTTL(30 * time.Second)).Client()
	defer client.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          clientgo.New(election.New(client, "reports"), "one"),
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 50 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { fmt.Println(true); stop() },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	elector.Run(ctx)
}
