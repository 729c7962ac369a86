package quorum

import (
	"context"
	"testing"

	"github.com/turnwise/turnwise/coord/redis"
	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestOptions(t *testing.T) {
	nobody := []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}
	storecheck.Options(t, storecheck.Ways[redis.Option]{
		Connect: func(ctx context.Context, opts ...redis.Option) error {
			_, err := Connect(ctx, nobody, opts...)
			return err
		},
		Open: func(ctx context.Context, opts ...redis.Option) error {
			_, err := Open(ctx, nobody, opts...)
			return err
		},
		WithClient: redis.WithClient, WithTTL: redis.WithTTL, WithLongestTTL: redis.WithLongestTTL,
	})
}
