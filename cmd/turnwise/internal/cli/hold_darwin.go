package cli

import (
	"context"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// isHolder reports whether there is such a process: what it is cannot be seen here.
func isHolder(pid int) bool { return syscall.Kill(pid, 0) == nil }

// replace has a file's number stand for another one.
func replace(f, by *os.File) error { return unix.Dup2(int(by.Fd()), int(f.Fd())) }

// outlived returns when a process has ended, or ctx has.
func outlived(ctx context.Context, pid int) {
	for ctx.Err() == nil && syscall.Kill(pid, 0) != syscall.ESRCH {
		sleep(ctx, 200*time.Millisecond)
	}
}

// keepFiles has no process inherit a file, but for standard input, output and error.
func keepFiles() {
	for fd := 3; fd < 256; fd++ {
		unix.CloseOnExec(fd)
	}
}
