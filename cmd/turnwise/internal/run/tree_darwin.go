package run

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// look is how often to check whether the process group has gone.
const look = 50 * time.Millisecond

// Adopt does nothing on this system: orphans go to process 1.
func Adopt() {}

func prepare(*syscall.SysProcAttr, Command) (done func(), err error) { return func() {}, nil }

// KeepThread does nothing on this system.
func KeepThread() {}

// Children are unknown on this system: orphans go to process 1, so none of a command's descendants become ours.
type Children struct{}

func existing() Children { return Children{} }

func (Children) add(int)      {}
func (Children) remove(int)   {}
func (Children) others() bool { return false }

// others reports whether anybody is left in the command's process group.
func (t *Tree) others() bool {
	return !t.command.Alone && unix.Kill(-t.pid, 0) == nil
}

func signalAll(t *Tree, sig syscall.Signal) {
	if t.pid != 0 {
		_ = unix.Kill(-t.pid, sig)
	}
}

// signalGroup sends a signal to the command's process group. If all in it have gone, its number may be somebody else's: this
// system has no way to see that.
func signalGroup(t *Tree, sig syscall.Signal) { signalAll(t, sig) }

func killAll(t *Tree) { signalAll(t, syscall.SIGKILL) }

// KillBelow does nothing on this system, which does not tell who has started whom.
func KillBelow(int, string) {}

// Means says how commands are ended on this system.
func Means() string { return "their process group; what leaves it is not found" }

// NewCgroup returns an error: this system has no control groups.
func NewCgroup() (string, error) { return "", errors.ErrUnsupported }

// RemoveCgroup does nothing on this system.
func RemoveCgroup(string) {}
