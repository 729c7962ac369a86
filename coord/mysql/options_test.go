package mysql

import (
	"testing"
	"time"

	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestOptions(t *testing.T) {
	storecheck.Options(t, storecheck.Ways[Option]{
		Connect:    storecheck.To(Connect, "user@tcp(127.0.0.1:1)/d"),
		Open:       storecheck.To(Open, "user@tcp(127.0.0.1:1)/d"),
		WithClient: WithClient, WithTTL: WithTTL, WithLongestTTL: WithLongestTTL,
	})
}

// A request ends with its context, and not earlier, or it would be open whether it was done.
func TestTimeoutsOfAnAddressEndNoRequest(t *testing.T) {
	cfg, err := parse("user@tcp(127.0.0.1:1)/d?readTimeout=1ms&writeTimeout=1ms&maxAllowedPacket=100&timeout=7s", nil)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.ReadTimeout != 0 || cfg.WriteTimeout != 0 || cfg.MaxAllowedPacket != 0 {
		t.Errorf("reading ends after %v, writing after %v, a packet has at most %d bytes", cfg.ReadTimeout, cfg.WriteTimeout, cfg.MaxAllowedPacket)
	}
	if cfg.Timeout != 7*time.Second {
		t.Errorf("dialling ends after %v", cfg.Timeout)
	}
}
