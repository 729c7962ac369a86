//go:build linux || darwin

package file

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/turnwise/turnwise/coord/register/storekit"
)

// Open opens a directory, and makes it if there is none. The directory above must be there.
func Open(ctx context.Context, dir string, opts ...Option) (*Store, error) {
	c, err := configure(storekit.ToOpen, opts)
	if err != nil {
		return nil, err
	}
	return openDir(ctx, dir, c)
}

func openDir(ctx context.Context, dir string, c config) (*Store, error) {
	if dir == "" {
		return nil, pkg.Invalid("the directory has no name: give one, such as /var/lib/app/locks")
	}
	s, err := opened(ctx, dir, c)
	if err != nil { // which says already that it is of this package
		return nil, storekit.OneLine(fmt.Errorf("turnwise: %w", storekit.Classed(err)))
	}
	return s, nil
}

func opened(ctx context.Context, dir string, c config) (*Store, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, unnamed("find the directory "+dir, err)
	}
	s := &Store{
		path: path, config: c,
		ears: make(map[*ear]struct{}), kept: make(map[*keeping]struct{}),
	}
	p, err := openPlace(ctx, path, &s.config)
	if err != nil {
		return nil, err
	}
	s.place.Store(p)
	s.closing, s.close = context.WithCancel(context.Background())
	s.running.Go(s.keepChecking)
	return s, nil
}
