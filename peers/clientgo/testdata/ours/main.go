// A candidate of ours, for [BenchmarkBesideClientGo].
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/turnwise/turnwise/coord/kube"
	"github.com/turnwise/turnwise/recipes/election"
)

func main() {
	server, token, ca := flag.String("server", "", ""), flag.String("token", "", ""), flag.String("ca", "", "")
	stops := flag.Duration("stops", 0, "how long the work takes to stop")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	client, err := kube.Connect(ctx, "default", kube.WithServer(*server), kube.WithTokenFile(*token), kube.WithCAFile(*ca), kube.WithTTL(15*time.Second), kube.WithLongestTTL(15*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	_ = election.New(client, "reports").Run(ctx, nil, func(ctx context.Context, _ *election.Term) error {
		fmt.Println("leads", time.Now().UnixNano())
		<-ctx.Done()
		time.Sleep(*stops)
		fmt.Println("stopped", time.Now().UnixNano())
		return nil
	})
}
