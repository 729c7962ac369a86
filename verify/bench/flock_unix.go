//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// openFlock locks a file by flock(2), and keeps it open, which is the quickest way: waiters stand in the kernel's line.
func openFlock(_ context.Context, s Setting) (Client, error) {
	dir := strings.TrimPrefix(s.Addr, "file://") + "-flock"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	free := make(map[string][]*os.File) // open, by line, and not locked
	open := func(line string) (*os.File, error) {
		mu.Lock()
		defer mu.Unlock()
		if all := free[line]; len(all) > 0 {
			free[line] = all[1:]
			return all[0], nil
		}
		return os.OpenFile(filepath.Join(dir, line), os.O_CREATE|os.O_RDWR, 0o600)
	}
	return alone{
		acquire: func(_ context.Context, w Want) (func() error, error) {
			f, err := open(w.Line)
			if err != nil {
				return nil, err
			}
			for {
				if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
					break
				}
			}
			return func() error {
				err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
				mu.Lock()
				defer mu.Unlock()
				free[w.Line] = append(free[w.Line], f)
				return err
			}, err
		},
		close: func() {}, // the process closes them
	}, nil
}
