package memcached

import (
	"testing"

	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestOptions(t *testing.T) {
	storecheck.Options(t, storecheck.Ways[Option]{
		Connect:    storecheck.To(Connect, "127.0.0.1:1"),
		Open:       storecheck.To(Open, "127.0.0.1:1"),
		WithClient: WithClient, WithTTL: WithTTL, WithLongestTTL: WithLongestTTL,
	})
}
