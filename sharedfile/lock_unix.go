//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sharedfile

import (
	"errors"
	"os"
	"syscall"
)

// notWaiting has a pipe opened at once.
const notWaiting = syscall.O_NONBLOCK

// lockShared locks a file or directory together with others that do so, and lockAlone locks it alone, until it is
// closed. Neither waits. known is false where there are no such locks.
func lockShared(f *os.File) (locked, known bool) { return tryLock(f, syscall.LOCK_SH) }

func lockAlone(f *os.File) (locked, known bool) { return tryLock(f, syscall.LOCK_EX) }

func tryLock(f *os.File, how int) (locked, known bool) {
	err := flock(f, how|syscall.LOCK_NB)
	return err == nil, err == nil || errors.Is(err, syscall.EWOULDBLOCK)
}

func flock(v *os.File, how int) error {
	for {
		if err := syscall.Flock(int(v.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}

// syncDir sees to it that the names in a directory are on the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return syncOpen(d)
}

func syncOpen(dir *os.File) error { return dir.Sync() }
