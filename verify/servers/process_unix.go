//go:build unix

package servers

import (
	"os"
	"syscall"
)

// ownGroup gives a child a process group of its own: Ctrl-C is for us, and we then end our children in our own order.
func ownGroup(attr *syscall.SysProcAttr) { attr.Setpgid = true }

func (p *Process) stop() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

func (p *Process) goOn() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// usualUmask lets everybody read what we make, as most shells do.
func usualUmask() { syscall.Umask(0o022) }

// lockFile waits for the lock on a file, which the kernel drops when we die.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }

func tryLockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
