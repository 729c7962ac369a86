package quorum

import (
	"testing"

	"github.com/turnwise/turnwise/coord/redis"
	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestOptions(t *testing.T) {
	nobody := []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}
	storecheck.Options(t, storecheck.Ways[redis.Option]{
		Connect:    storecheck.To(Connect, nobody),
		Open:       storecheck.To(Open, nobody),
		WithClient: redis.WithClient, WithTTL: redis.WithTTL, WithLongestTTL: redis.WithLongestTTL,
	})
}
