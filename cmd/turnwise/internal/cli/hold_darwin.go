package cli

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// peerOf returns the user at the other end of a socket.
func peerOf(c *net.UnixConn) (uid int, err error) {
	uid = -1
	raw, err := c.SyscallConn()
	if err != nil {
		return uid, err
	}
	failed := raw.Control(func(fd uintptr) {
		var peer *unix.Xucred
		if peer, err = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED); err == nil {
			uid = int(peer.Uid)
		}
	})
	return uid, errors.Join(failed, err)
}

// replace makes a file's number stand for another file.
func replace(f, by *os.File) error { return unix.Dup2(int(by.Fd()), int(f.Fd())) }

// outlived returns when a process has ended, or ctx has.
func outlived(ctx context.Context, pid int) {
	for ctx.Err() == nil && syscall.Kill(pid, 0) != syscall.ESRCH {
		sleep(ctx, 200*time.Millisecond)
	}
}

// keepFiles lets processes that are started inherit no files except standard input, output and error.
func keepFiles() {
	for fd := 3; fd < 256; fd++ {
		unix.CloseOnExec(fd)
	}
}
