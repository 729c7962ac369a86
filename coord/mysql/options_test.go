package mysql

import (
	"context"
	"testing"

	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestOptions(t *testing.T) {
	storecheck.Options(t, storecheck.Ways[Option]{
		Connect: func(ctx context.Context, opts ...Option) error {
			_, err := Connect(ctx, "user@tcp(127.0.0.1:1)/d", opts...)
			return err
		},
		Open: func(ctx context.Context, opts ...Option) error {
			_, err := Open(ctx, "user@tcp(127.0.0.1:1)/d", opts...)
			return err
		},
		WithClient: WithClient, WithTTL: WithTTL, WithLongestTTL: WithLongestTTL,
	})
}
