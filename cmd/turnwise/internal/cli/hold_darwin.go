package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

func peerAt(fd int) (peer, error) {
	p, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return peer{uid: -1}, err
	}
	return peer{uid: int(p.Uid)}, nil
}

// sameNumbers: there is one namespace.
func (peer) sameNumbers() error { return nil }

// replace makes a file's number stand for another file.
func replace(f, by *os.File) error { return unix.Dup2(int(by.Fd()), int(f.Fd())) }

// keepFiles lets processes that are started inherit no files except standard input, output and error.
func keepFiles() {
	for fd := 3; fd < 256; fd++ {
		unix.CloseOnExec(fd)
	}
}
