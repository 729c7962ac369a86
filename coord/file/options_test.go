//go:build linux || darwin

package file

import (
	"testing"

	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestOptions(t *testing.T) {
	dir := t.TempDir()
	storecheck.Options(t, storecheck.Ways[Option]{
		Connect:    storecheck.To(Connect, dir),
		Open:       storecheck.To(Open, dir),
		WithClient: WithClient,
	})
}
