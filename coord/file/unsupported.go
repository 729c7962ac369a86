//go:build !linux && !darwin

package file

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
)

// Store does not exist on this system.
type Store struct {
	register.Presence
	config
}

// Strength returns what files promise elsewhere.
func (s *Store) Strength() driver.Strength { return s.strength() }

// Open returns an error: a store of files needs Linux or macOS.
func Open(ctx context.Context, dir string, opts ...Option) (*Store, error) {
	return openDir(ctx, dir, config{})
}

func openDir(context.Context, string, config) (*Store, error) {
	return nil, fmt.Errorf("turnwise: file: %w: a store of files needs Linux or macOS, and this is %s", driver.ErrDenied, runtime.GOOS)
}

// Descriptors returns an error: there is no store.
func Descriptors(c *coord.Client) ([]*os.File, error) { return nil, coord.ErrInvalid }

// Keepers returns an error: there is no store.
func Keepers(c *coord.Client, n coord.Node) ([]int, error) { return nil, coord.ErrInvalid }
