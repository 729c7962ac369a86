// Election is a service of which one instance leads. It answers /healthz, and answers /leader with the leader's address.
// On SIGTERM it stops its work and hands over before it exits.
//
//	go run ./examples/election [URL of a service] [listen address]
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/election"
)

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	url := "file://" // a directory of the user's
	if len(os.Args) > 1 {
		url = os.Args[1]
	}
	service, err := backend.Parse(url)
	if err != nil {
		return err
	}
	client, err := service.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()

	address := "127.0.0.1:0"
	if len(os.Args) > 2 {
		address = os.Args[2]
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	self := listener.Addr().String()
	log.Printf("listening on http://%s", self)

	seat := election.New(client, "examples/seat")
	server := &http.Server{Handler: handler(seat)}
	go server.Serve(listener)

	err = seat.Run(ctx, []byte(self), func(ctx context.Context, term *election.Term) error {
		log.Printf("leading with token %d", term.Token())
		defer log.Print("no longer leading")
		return work(ctx)
	})
	last, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(last))
}

// work goes on until the term is lost or the service is told to stop.
func work(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func handler(seat *election.Election) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /leader", func(w http.ResponseWriter, r *http.Request) {
		leader, err := seat.Leader(r.Context())
		switch {
		case errors.Is(err, election.ErrNoLeader):
			http.Error(w, "nobody leads", http.StatusNotFound)
		case errors.Is(err, coord.ErrUnavailable):
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			fmt.Fprintln(w, coord.Printable(string(leader.Data)))
		}
	})
	return mux
}
