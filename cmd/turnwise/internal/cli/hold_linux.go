package cli

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

func peerAt(fd int) (peer, error) {
	p, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return peer{uid: -1}, err
	}
	return peer{int(p.Uid), int(p.Pid)}, nil
}

// sameNumbers returns an error if a peer counts processes in another namespace: a number of his is that of somebody else here, who may
// never end.
func (p peer) sameNumbers() error {
	if p.pid > 0 {
		own, err1 := os.Readlink("/proc/self/ns/pid")
		his, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", p.pid))
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
