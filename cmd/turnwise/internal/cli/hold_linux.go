package cli

import (
	"errors"
	"fmt"
	"math"
	"net"
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

// sameNumbers returns an error if whoever is at the other end of a socket counts processes in another namespace: a number of his is that of
// somebody else here, who may never end.
func sameNumbers(c net.Conn) error {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	failed := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(failed, err); err != nil {
		return err
	}
	if peer.Pid > 0 { // else it is not to be seen from here
		own, err1 := os.Readlink("/proc/self/ns/pid")
		his, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", peer.Pid))
		if own == his || err1 != nil || err2 != nil { // without /proc nobody can tell
			return nil
		}
	}
	return errOtherNumbers
}

var errOtherNumbers = errors.New("the shell is in another PID namespace than the holder: start 'turnwise hold' where it is evaluated, or with --for or --pid")

// replace makes a file's number stand for another file.
func replace(f, by *os.File) error { return unix.Dup3(int(by.Fd()), int(f.Fd()), 0) }

// keepFiles lets processes that are started inherit no files except standard input, output and error.
func keepFiles() { _ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) }
