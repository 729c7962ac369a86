package redis

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// Two parts of a program may each have a driver on the client that the program has.
func TestTwoDriversOnOneClientDisturbEachOtherInNothing(t *testing.T) {
	const ttl = time.Second
	address := servers.Redis(t).Addrs()[0]
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var on []*coord.Client
	for range 2 {
		d, err := New(redistest.Within(t, 20*time.Second), client, WithTTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		c := coord.NewClient(d)
		defer c.Close()
		on = append(on, c)
	}
	elsewhere, err := Connect(redistest.Within(t, 20*time.Second), address, WithTTL(ttl))
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()

	handsOver(t, on[0], on[1])
	handsOver(t, on[1], on[0])

	held, err := mutex.New(on[1], "kept").Lock(redistest.Within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() {
		_, err := mutex.New(on[0], "kept").Lock(redistest.Within(t, 20*time.Second))
		waits <- err
	}()
	time.Sleep(ttl / 4)
	if err := on[0].Close(); err != nil {
		t.Error(err)
	}
	if err := <-waits; !errors.Is(err, coord.ErrClosed) {
		t.Errorf("who waited in the one that was closed: %v", err)
	}
	time.Sleep(2 * ttl) // the other is renewed
	if err := held.Err(); err != nil {
		t.Errorf("a hold of the other one: %v", err)
	}
	if err := held.Release(); err != nil {
		t.Error(err)
	}
	handsOver(t, elsewhere, on[1]) // it still works
	handsOver(t, on[1], elsewhere)
	if err := on[1].Close(); err != nil {
		t.Error(err)
	}
	if err := client.Do(t.Context(), client.B().Ping().Build()).Error(); err != nil {
		t.Errorf("the client itself: %v", err)
	}
}

// handsOver has one client hold a lock, and the other one wait for it.
func handsOver(t *testing.T, from, to *coord.Client) {
	t.Helper()
	h, err := mutex.New(from, "orders").Lock(redistest.Within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	granted := make(chan error, 1)
	go func() {
		next, err := mutex.New(to, "orders").Lock(redistest.Within(t, 20*time.Second))
		if err == nil {
			err = next.Release()
		}
		granted <- err
	}()
	time.Sleep(100 * time.Millisecond) // it waits
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	if err := <-granted; err != nil {
		t.Errorf("who waited: %v", err)
	}
}
