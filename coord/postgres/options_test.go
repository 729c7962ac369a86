package postgres

import (
	"testing"
	"time"

	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestANilOptionChangesNothing(t *testing.T) {
	if _, err := configure([]Option{nil}); err != nil {
		t.Error(err)
	}
}

func TestATTLThatIsASlipIsRefused(t *testing.T) {
	storecheck.RefusesSlips(t, func(ttl time.Duration) error {
		_, err := configure([]Option{WithTTL(ttl)})
		return err
	})
}
