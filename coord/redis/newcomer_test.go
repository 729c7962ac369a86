package redis

import (
	"context"
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
	storecheck.Newcomer(t, m.Addr(), func(ctx context.Context, address string, ttl time.Duration) (*coord.Client, error) {
		return Connect(ctx, address, WithTTL(ttl))
	}, func() { redistest.CLI(t, m.Addr(), "FLUSHALL") })
}

func TestNobodyEntersWhenABackupIsPutBack(t *testing.T) {
	t.Parallel()
	storecheck.OldDisk(t, servers.Redis(t, servers.AppendOnly("always")).Member(0), func(ctx context.Context, url string, ttl time.Duration) (*coord.Client, error) {
		return Connect(ctx, url, WithTTL(ttl), WithLongestTTL(ttl))
	})
}
