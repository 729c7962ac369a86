package kube_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/kube"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// In a pod, the API server, the namespace and the credentials are those that Kubernetes has given it.
func Example() {
	ctx := context.Background()
	client, err := kube.Connect(ctx, "")
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

// A program that has a client of its own, such as client-go's rest.HTTPClientFor(config) returns, shares it.
func ExampleNew() {
	ctx := context.Background()
	var mine *http.Client
	d, err := kube.New(ctx, mine, "https://10.96.0.1:443", "shop")
	if err != nil {
		log.Fatal(err)
	}
	client := coord.NewClient(d)
	defer client.Close()
}
