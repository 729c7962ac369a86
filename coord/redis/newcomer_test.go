package redis

import (
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

func connecting(opts ...Option) func(t testing.TB, address string, ttl time.Duration) *coord.Client {
	return func(t testing.TB, address string, ttl time.Duration) *coord.Client {
		c, err := Connect(storecheck.Within(t, 20*time.Second), "redis://"+address, append(opts, WithTTL(ttl))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
}

func TestANewcomerWithShortSessionsEntersBesideNobody(t *testing.T) {
	t.Parallel()
	m := servers.Redis(t).Member(0)
	storecheck.Newcomer(t, m.Addr(), connecting(), func() { redistest.CLI(t, m.Addr(), "FLUSHALL") })
}

func TestNobodyEntersWhenABackupIsPutBack(t *testing.T) {
	t.Parallel()
	m := servers.Redis(t, servers.AppendOnly("always")).Member(0)
	storecheck.OldDisk(t, m.Addr(), connecting(WithLongestTTL(4*time.Second)), func() { m.KeepDisk(t) }, func() { m.PutBackDisk(t) })
}
