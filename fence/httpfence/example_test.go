package httpfence_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/fence"
	"github.com/turnwise/turnwise/fence/httpfence"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// A client that holds a lock writes to a server, which refuses the write if somebody else holds the lock by now.
func Example() {
	ledger := http.NewServeMux()
	ledger.Handle("PUT /orders/{id}", httpfence.Require(new(fence.Local),
		func(r *http.Request) string { return "orders/" + r.PathValue("id") },
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			fmt.Printf("saved: %s\n", text)
		})))
	server := httptest.NewServer(ledger)
	defer server.Close()

	service := mem.New() // or zk.Connect, etcd.Connect
	defer service.Close()
	locks := service.Client()
	client := &http.Client{Transport: &httpfence.Transport{Client: locks, Line: "orders/42"}}
	err := mutex.New(locks, "orders/42").Do(context.Background(), func(ctx context.Context, h *coord.Hold) error {
		req, err := http.NewRequestWithContext(ctx, "PUT", server.URL+"/orders/42", strings.NewReader("3 books"))
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		fmt.Println(resp.Status)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	// A write comes late: somebody else has held the lock since, and written.
	late := httptest.NewRequest("PUT", "/orders/42", strings.NewReader("2 books"))
	httpfence.Set(late.Header, "orders/42", fence.Stamp{Token: 1})
	answer := httptest.NewRecorder()
	ledger.ServeHTTP(answer, late)
	fmt.Println(answer.Result().Status)
	// Output:
	// saved: 3 books
	// 200 OK
	// 412 Precondition Failed
}
