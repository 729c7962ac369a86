// A candidate of client-go's, for [BenchmarkBesideClientGo].
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() {
	server, token, ca := flag.String("server", "", ""), flag.String("token", "", ""), flag.String("ca", "", "")
	stops := flag.Duration("stops", 0, "how long the work takes to stop")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	client, err := coordinationv1.NewForConfig(&rest.Config{
		Host: *server, BearerTokenFile: *token, TLSClientConfig: rest.TLSClientConfig{CAFile: *ca},
	})
	if err != nil {
		log.Fatal(err)
	}
	worked := make(chan struct{})
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Name: "reports", Namespace: "default"}, Client: client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: fmt.Sprint("candidate-", os.Getpid())},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				defer close(worked)
				fmt.Println("leads", time.Now().UnixNano())
				<-ctx.Done()
				time.Sleep(*stops)
				fmt.Println("stopped", time.Now().UnixNano())
			},
			OnStoppedLeading: func() {},
		},
	})
	select {
	case <-worked:
	case <-time.After(*stops + time.Second): // it never led
	}
}
