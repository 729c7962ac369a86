package cli

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// userAt returns the user at the other end of a socket.
func userAt(fd int) (uid int, err error) {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(peer.Uid), nil
}

// replace makes a file's number stand for another file.
func replace(f, by *os.File) error { return unix.Dup3(int(by.Fd()), int(f.Fd()), 0) }

// keepFiles lets processes that are started inherit no files except standard input, output and error.
func keepFiles() { _ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) }
