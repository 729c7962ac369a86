package migrating

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/verify/integration/service"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

const (
	ttl   = 5 * time.Second
	turns = 10 // of each who takes part, at least
)

// work is what one at a time may do. It may be given a token.
type work func(context.Context, coord.Token) error

// party runs the work under a lock, or under two.
type party func(context.Context, work) error

// meet has all parties take turns at the same time, until each has had its number of them. No two may be inside.
func meet(t *testing.T, parties ...party) {
	t.Helper()
	ctx := within(t, 3*time.Minute)
	var inside, done atomic.Int64
	var all sync.WaitGroup
	for i, p := range parties {
		all.Go(func() {
			var counted sync.Once
			count := func() { counted.Do(func() { done.Add(1) }) }
			defer count() // also if it gives up
			// Who is quick goes on, so that the slow ones meet somebody.
			for n := 1; n <= turns || done.Load() < int64(len(parties)); n++ {
				came := false
				err := p(ctx, func(context.Context, coord.Token) error {
					came = true
					if inside.Add(1) != 1 {
						t.Errorf("party %d is not alone inside", i)
					}
					time.Sleep(time.Millisecond)
					inside.Add(-1)
					return nil
				})
				if err != nil || !came {
					t.Errorf("party %d: %v, and its work was done: %v", i, err, came)
					return
				}
				if n >= turns {
					count()
				}
				time.Sleep(time.Millisecond) // not every lock is fair
			}
		})
	}
	all.Wait()
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// open returns a client of one of the services that others are tested on.
func open(t *testing.T, name string, addrs []string) *coord.Client {
	return service.Named(name).Client(t, addrs, ttl)
}

// connected fails the test if the client could not be made, and closes it with the test.
func connected(t *testing.T) func(*coord.Client, error) *coord.Client {
	return func(c *coord.Client, err error) *coord.Client {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
}
