// Guard shows what protects data when a holder is paused between checking its lock and writing: once it no longer
// holds, the service refuses its write.
//
//	go run ./examples/guard zk://localhost:2181
//	go run ./examples/guard etcd://localhost:2379
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// errRefused is what a writer gets that no longer holds.
var errRefused = errors.New("refused: the lock is another's by now")

// account is data kept in the same service as the lock.
type account interface {
	// guard prepares writes that go through only while h holds.
	guard(h *coord.Hold) (write func(ctx context.Context, balance string) error, err error)
	close()
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := run(ctx, os.Args); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("give the URL of a service: zk://host:port or etcd://host:port")
	}
	scheme, hosts, _ := strings.Cut(args[1], "://")
	open := map[string]func(context.Context, []string) (*coord.Client, account, error){"zk": openZooKeeper, "etcd": openEtcd}[scheme]
	if open == nil {
		return fmt.Errorf("%q: guards are for zk:// and etcd://", args[1])
	}
	client, account, err := open(ctx, strings.Split(hosts, ","))
	if err != nil {
		return err
	}
	defer account.close()
	defer client.Close()

	lock := mutex.New(client, "accounts/4711")
	first, err := lock.Lock(ctx)
	if err != nil {
		return err
	}
	defer first.Release()
	write, err := account.guard(first)
	if err != nil {
		return err
	}
	fmt.Println("the holder writes:", outcome(write(ctx, "100")))

	// Suppose that the holder is paused here. It loses the lock, as it would when its session ends, and another gets it.
	if err := client.Break(ctx, first.Node()); err != nil {
		return err
	}
	second, err := lock.Lock(ctx)
	if err != nil {
		return err
	}
	defer second.Release()
	writeToo, err := account.guard(second)
	if err != nil {
		return err
	}
	fmt.Println("the next one writes:", outcome(writeToo(ctx, "200")))

	fmt.Println("the first one wakes up and writes:", outcome(write(ctx, "99")))
	return nil
}

func outcome(err error) string {
	if err != nil {
		return err.Error()
	}
	return "done"
}
