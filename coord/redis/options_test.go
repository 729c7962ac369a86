package redis

import (
	"testing"

	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestOptions(t *testing.T) {
	storecheck.Options(t, WithTTL, func(opts []Option) error {
		_, err := server.Configure(defaultRoot, opts)
		return err
	})
}
