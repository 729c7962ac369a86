//go:build !linux

package servers

import (
	"errors"
	"os/exec"
	"syscall"
	"time"
)

// On systems other than Linux a child outlives a parent that was kill -9'd. Tests still end their own.
func dieWithParent(*syscall.SysProcAttr) {}

func (p *Process) awaitFrozen() {}

// notAsRoot does nothing: here root has to run the tests as another user.
func notAsRoot(*exec.Cmd) {}

func explainRefusal(_ *exec.Cmd, err error) error { return err }

// The children of a child are left alone here. PostgreSQL's end by themselves when their parent has gone, but they are
// not frozen with it.
type family struct{}

func (p *Process) freezeChildren() {}

func (p *Process) thawChildren() {}

func (p *Process) killChildren() {}

// TakenByAll is known on Linux alone.
func TakenByAll() (busy time.Duration, memory float64, err error) { return 0, 0, errors.ErrUnsupported }

// roomIn returns 0: no folder is known to be in memory.
func roomIn(string) int64 { return 0 }

// listens cannot find out here. But a server whose port is taken exits by itself, and that is noticed.
func (p *Process) listens(int) bool { return p.Alive() }
