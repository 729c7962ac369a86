package redis

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/redis/internal/server"
)

func TestANilOptionChangesNothing(t *testing.T) {
	if _, err := server.Configure(defaultRoot, []Option{nil}); err != nil {
		t.Error(err)
	}
}

// A TTL without its unit is one of nanoseconds.
func TestATTLThatIsASlipIsRefused(t *testing.T) {
	for _, slip := range []time.Duration{0, -time.Second, 30, 499 * time.Millisecond} {
		if _, err := server.Configure(defaultRoot, []Option{WithTTL(slip)}); !errors.Is(err, coord.ErrInvalid) || !strings.Contains(err.Error(), "WithTTL") {
			t.Errorf("WithTTL(%v): %v", slip, err)
		}
	}
}
