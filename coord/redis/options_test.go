package redis

import (
	"crypto/tls"
	"testing"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestOptions(t *testing.T) {
	storecheck.Options(t, storecheck.Ways[Option]{
		Connect:    storecheck.To(Connect, "127.0.0.1:1"),
		Open:       storecheck.To(Open, "127.0.0.1:1"),
		New:        storecheck.To(New, rueidis.Client(nil)),
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
