package memcached

import (
	"testing"

	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestOptions(t *testing.T) {
	storecheck.Options(t, WithTTL, func(opts []Option) error {
		_, err := configure(opts)
		return err
	})
}
