package memcached

import (
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestANewcomerWithShortSessionsEntersBesideNobody(t *testing.T) {
	t.Parallel()
	m := server(t)
	storecheck.Newcomer(t, m.Addr(), func(t testing.TB, address string, ttl time.Duration) *coord.Client {
		c, err := Connect(within(t, 20*time.Second), address, WithTTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}, func() { telnet(t, m.Addr(), "flush_all") })
}
