//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sharedfile

import (
	"errors"
	"os"
	"syscall"
)

// lockShared keeps a version from being removed while it is open. It reports false if somebody is just removing it. Where
// files cannot be locked it reports true, and versions are kept for an hour.
func lockShared(v *os.File) bool {
	return !errors.Is(flock(v, syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// open reports whether somebody has a version open, who is kept from opening it until v is closed. known is false where
// files cannot be locked.
func isOpen(v *os.File) (open, known bool) {
	err := flock(v, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, true
	}
	return false, err == nil
}

func flock(v *os.File, how int) error {
	for {
		if err := syscall.Flock(int(v.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}

// syncDir puts the names in a directory on the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
