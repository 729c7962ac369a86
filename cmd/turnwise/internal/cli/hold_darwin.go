package cli

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// userAt returns the user at the other end of a socket.
func userAt(fd int) (uid int, err error) {
	peer, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(peer.Uid), nil
}

// sameNumbers: there is one namespace.
func sameNumbers(net.Conn) error { return nil }

// replace makes a file's number stand for another file.
func replace(f, by *os.File) error { return unix.Dup2(int(by.Fd()), int(f.Fd())) }

// keepFiles lets processes that are started inherit no files except standard input, output and error.
func keepFiles() {
	for fd := 3; fd < 256; fd++ {
		unix.CloseOnExec(fd)
	}
}
