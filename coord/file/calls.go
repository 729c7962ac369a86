//go:build linux || darwin

package file

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// again makes a system call, and makes it again as long as a signal has interrupted it.
func again(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

// readAt reads as much of a file as there is, or as b has room for.
func readAt(fd int, b []byte, at int64) (n int, err error) {
	for {
		if n, err = unix.Pread(fd, b, at); err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// buffers are for reading: a page each.
var buffers = sync.Pool{New: func() any { b := make([]byte, 4096); return &b }}

// namesOf lists a directory that nobody else reads through the same descriptor.
func namesOf(fd int) (names []string, err error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for {
		n, err := unix.ReadDirent(fd, *buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return names, err
		}
		_, _, names = unix.ParseDirent((*buf)[:n], -1, names)
	}
}

func flock(f *os.File, how int) error {
	fd := int(f.Fd())
	for {
		if err := unix.Flock(fd, how); err != unix.EINTR {
			return err
		}
	}
}
