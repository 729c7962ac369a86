package run

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// look is how often there is a look whether the process group is gone.
const look = 50 * time.Millisecond

// Adopt does nothing: orphans go to process 1.
func Adopt() {}

func prepare(*syscall.SysProcAttr, Command) (done func(), err error) { return func() {}, nil }

// KeepThread has nothing to keep here.
func KeepThread() {}

// others reports whether anybody is left in the command's process group.
func (t *Tree) others() bool {
	return !t.command.Alone && unix.Kill(-t.pid, 0) == nil
}

func signalAll(t *Tree, sig syscall.Signal) {
	if t.pid != 0 {
		_ = unix.Kill(-t.pid, sig)
	}
}

func killAll(t *Tree) { signalAll(t, syscall.SIGKILL) }

// Means is how commands are ended here.
func Means() string { return "their process group; what leaves it is not found" }

// NewCgroup makes none.
func NewCgroup() (string, error) { return "", errors.ErrUnsupported }

// RemoveCgroup has none to remove.
func RemoveCgroup(string) {}
