package mysql

import (
	"testing"

	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestOptions(t *testing.T) {
	storecheck.Options(t, storecheck.Ways[Option]{
		Connect:    storecheck.To(Connect, "user@tcp(127.0.0.1:1)/d"),
		Open:       storecheck.To(Open, "user@tcp(127.0.0.1:1)/d"),
		WithClient: WithClient, WithTTL: WithTTL, WithLongestTTL: WithLongestTTL,
	})
}
