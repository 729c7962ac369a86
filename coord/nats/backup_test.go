package nats

import (
	"context"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestNobodyEntersWhenABackupIsPutBack(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t, servers.Fsync()).Member(0)
	storecheck.OldDisk(t, m, func(ctx context.Context, url string, ttl time.Duration) (*coord.Client, error) {
		return Connect(ctx, url, WithTTL(ttl), WithLongestTTL(ttl), WithMonitor(monitor(m)))
	})
}

func TestItShowsThatTheServerWasStartedAnew(t *testing.T) {
	t.Parallel()
	m := servers.NATS(t, servers.Fsync()).Member(0)
	storecheck.AfterRestart(t, m, func(ctx context.Context, url string) (register.Reconnecting, error) {
		return Open(ctx, url, WithMonitor(monitor(m)))
	})
}
