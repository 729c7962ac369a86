package nats

import (
	"crypto/tls"
	"testing"

	natsgo "github.com/nats-io/nats.go"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestOptions(t *testing.T) {
	storecheck.Options(t, storecheck.Ways[Option]{
		Connect:    storecheck.To(Connect, "127.0.0.1:1"),
		Open:       storecheck.To(Open, "127.0.0.1:1"),
		New:        storecheck.To(New, natsgo.Options{Url: "nats://127.0.0.1:1"}),
		WithClient: WithClient, WithTTL: WithTTL, WithLongestTTL: WithLongestTTL,
	})
}

// Otherwise whoever asks for TLS there would go without.
func TestNewRefusesWhatItsOptionsSay(t *testing.T) {
	for _, o := range []Option{WithTLS(&tls.Config{}), WithCredentials("/credentials"), WithCleartextPassword()} {
		_, err := New(t.Context(), natsgo.Options{Url: "nats://127.0.0.1:1"}, o)
		storecheck.Refused(t, err, coord.ErrInvalid, "for Connect and Open")
	}
}
