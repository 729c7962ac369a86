//go:build linux || darwin

package file

import (
	"context"
	"testing"

	"github.com/turnwise/turnwise/internal/storecheck"
)

func TestOptions(t *testing.T) {
	dir := t.TempDir()
	storecheck.Options(t, storecheck.Ways[Option]{
		Connect: func(ctx context.Context, opts ...Option) error {
			c, err := Connect(ctx, dir, opts...)
			if err == nil {
				c.Close()
			}
			return err
		},
		Open: func(ctx context.Context, opts ...Option) error {
			s, err := Open(ctx, dir, opts...)
			if err == nil {
				s.Close()
			}
			return err
		},
		WithClient: WithClient,
	})
}
