package memcached

import (
	"context"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestANewcomerWithShortSessionsEntersBesideNobody(t *testing.T) {
	t.Parallel()
	m := server(t)
	storecheck.Newcomer(t, m.Addr(), func(ctx context.Context, address string, ttl time.Duration) (*coord.Client, error) {
		return Connect(ctx, address, WithTTL(ttl))
	}, func() { telnet(t, m.Addr(), "flush_all") })
}
