package redis

import (
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestANewcomerWithShortSessionsEntersBesideNobody(t *testing.T) {
	t.Parallel()
	m := servers.Redis(t).Member(0)
	storecheck.Newcomer(t, m.Addr(), func(t testing.TB, address string, ttl time.Duration) *coord.Client {
		c, err := Connect(storecheck.Within(t, 20*time.Second), "redis://"+address, WithTTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}, func() { redistest.CLI(t, m.Addr(), "FLUSHALL") })
}
