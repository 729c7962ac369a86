package redis

import (
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestANilOptionChangesNothing(t *testing.T) {
	if _, err := server.Configure(defaultRoot, []Option{nil}); err != nil {
		t.Error(err)
	}
}

func TestATTLThatIsASlipIsRefused(t *testing.T) {
	storecheck.RefusesSlips(t, func(ttl time.Duration) error {
		_, err := server.Configure(defaultRoot, []Option{WithTTL(ttl)})
		return err
	})
}
