//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
)

// flockPeer locks a file as flock(1) does. It takes no context.
func flockPeer(w *worker) []errand {
	path := filepath.Join(filepath.Dir(w.job.Journal), "flock")
	return []errand{locks("flock", func(context.Context) (*claim, error) {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		for {
			if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
				break
			}
		}
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		return &claim{valid: unaware, release: f.Close}, nil
	})}
}
