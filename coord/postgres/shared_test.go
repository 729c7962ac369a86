package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/storecheck"
)

// Two parts of a program may each have a driver that connects as the pool of the program does.
func TestTwoDriversOnOnePoolDisturbEachOtherInNothing(t *testing.T) {
	const ttl = 3 * time.Second
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

	storecheck.SideBySide(t, ttl, on[0], on[1], elsewhere)
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the pool itself: %v", err)
	}
}
