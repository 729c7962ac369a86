package redis

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

// Two parts of a program may each have a driver on the client that the program has.
func TestTwoDriversOnOneClientDisturbEachOtherInNothing(t *testing.T) {
	const ttl = 3 * time.Second
	address := servers.Redis(t).Addrs()[0]
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var on []*coord.Client
	for range 2 {
		d, err := New(redistest.Within(t, 20*time.Second), client, WithTTL(ttl), WithLongestTTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		c := coord.NewClient(d)
		defer c.Close()
		on = append(on, c)
	}
	elsewhere, err := Connect(redistest.Within(t, 20*time.Second), address, WithTTL(ttl), WithLongestTTL(ttl))
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()

	storecheck.SideBySide(t, ttl, on[0], on[1], elsewhere)
	if err := client.Do(t.Context(), client.B().Ping().Build()).Error(); err != nil {
		t.Errorf("the client itself: %v", err)
	}
}
