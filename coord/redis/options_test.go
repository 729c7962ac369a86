package redis

import (
	"context"
	"crypto/tls"
	"testing"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestOptions(t *testing.T) {
	storecheck.Options(t, storecheck.Ways[Option]{
		Connect: func(ctx context.Context, opts ...Option) error {
			_, err := Connect(ctx, "127.0.0.1:1", opts...)
			return err
		},
		Open: func(ctx context.Context, opts ...Option) error {
			_, err := Open(ctx, "127.0.0.1:1", opts...)
			return err
		},
		New: func(ctx context.Context, opts ...Option) error {
			_, err := New(ctx, rueidis.Client(nil), opts...)
			return err
		},
		WithClient: WithClient, WithTTL: WithTTL, WithLongestTTL: WithLongestTTL,
	})
}

// Otherwise whoever asks for TLS there would go without.
func TestNewRefusesWhatItsClientSays(t *testing.T) {
	for _, o := range []Option{WithTLS(&tls.Config{}), WithCleartextPassword()} {
		_, err := New(t.Context(), nil, o)
		storecheck.Refused(t, err, coord.ErrInvalid, "for Connect and Open")
	}
}
