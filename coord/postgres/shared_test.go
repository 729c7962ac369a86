package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// Two parts of a program may each have a driver that connects as the pool of the program does.
func TestTwoDriversOnOnePoolDisturbEachOtherInNothing(t *testing.T) {
	const ttl = time.Second
	url, table := sharedServer(t).URL(), freshTable()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var on []*coord.Client
	for range 2 {
		d, err := New(within(t, 20*time.Second), pool, WithTable(table), WithTTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		c := coord.NewClient(d)
		defer c.Close()
		on = append(on, c)
	}
	elsewhere, err := Connect(within(t, 20*time.Second), url, WithTable(table), WithTTL(ttl))
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()

	handsOver(t, on[0], on[1])
	handsOver(t, on[1], on[0])

	held, err := mutex.New(on[1], "kept").Lock(within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() {
		_, err := mutex.New(on[0], "kept").Lock(within(t, 20*time.Second))
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
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the pool itself: %v", err)
	}
}

// handsOver has one client hold a lock, and the other one wait for it.
func handsOver(t *testing.T, from, to *coord.Client) {
	t.Helper()
	h, err := mutex.New(from, "orders").Lock(within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	granted := make(chan error, 1)
	go func() {
		next, err := mutex.New(to, "orders").Lock(within(t, 20*time.Second))
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
