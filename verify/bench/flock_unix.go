//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// openFlock locks a file as flock(1) does: whoever waits is in the kernel's line.
func openFlock(_ context.Context, s Setting) (Client, error) {
	dir := strings.TrimPrefix(s.Addr, "file://") + "-flock"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return alone{
		acquire: func(_ context.Context, w Want) (func() error, error) {
			f, err := os.OpenFile(filepath.Join(dir, w.Line), os.O_CREATE|os.O_RDWR, 0o600)
			if err != nil {
				return nil, err
			}
			for {
				if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
					break
				}
			}
			if err != nil {
				f.Close()
				return nil, err
			}
			return f.Close, nil
		},
		close: func() {},
	}, nil
}
