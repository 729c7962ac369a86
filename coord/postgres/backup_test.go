package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestNobodyEntersWhenABackupIsPutBack(t *testing.T) {
	t.Parallel()
	storecheck.OldDisk(t, durable(t), func(ctx context.Context, url string, ttl time.Duration) (*coord.Client, error) {
		return Connect(ctx, url, WithTTL(ttl), WithLongestTTL(ttl))
	})
}

func TestItShowsThatTheServerWasStartedAnew(t *testing.T) {
	t.Parallel()
	storecheck.AfterRestart(t, durable(t), func(ctx context.Context, url string) (register.Reconnecting, error) { return Open(ctx, url) })
}
