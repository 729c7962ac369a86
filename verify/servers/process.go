package servers

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
)

// Supervisor names the one goroutine that each live process has. A leak check in a test that shares a server must
// ignore it: goleak.IgnoreAnyFunction(servers.Supervisor).
const Supervisor = "github.com/turnwise/turnwise/verify/servers.(*Process).supervise"

// A Process is a child that dies with us, whatever we die of. Besides servers, tests start clients this way, to kill or
// freeze the holder of a lock.
//
// Freeze, Thaw and Kill, on Linux, apply to its own children as well: PostgreSQL has one for each connection.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	frozen atomic.Bool
	family family
}

// StartProcess starts cmd, and reaps it when it ends.
func StartProcess(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	ownGroup(cmd.SysProcAttr)
	dieWithParent(cmd.SysProcAttr)
	started := make(chan error)
	go p.supervise(started)
	if err := <-started; err != nil {
		return nil, explainRefusal(cmd, err)
	}
	return p, nil
}

// supervise keeps its thread to itself as long as the child lives: for the kernel, the parent whose death kills the
// child is the thread that forked it, and Go ends threads as it likes.
func (p *Process) supervise(started chan<- error) {
	runtime.LockOSThread() // never unlocked, so the thread ends with this goroutine
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait() // the result is in ProcessState
		close(p.exited)
	}
}

// Pid returns the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Exited is closed when the process has ended and been reaped.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Alive reports whether the process has not ended; it may be frozen.
func (p *Process) Alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Frozen reports whether the process was frozen and has not been thawed since.
func (p *Process) Frozen() bool { return p.frozen.Load() }

// Kill ends the process at once, as kill -9 does, and returns when it is gone. If it is gone already, Kill does
// nothing.
func (p *Process) Kill() {
	p.killChildren()
	p.end(syscall.SIGKILL)
}

// Terminate asks the process to end in good order and returns when it is gone.
func (p *Process) Terminate() { p.end(syscall.SIGTERM) }

func (p *Process) end(sig os.Signal) {
	// Signals go through os.Process, which knows when the child has been reaped: its id may be somebody else's by then.
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		panic(fmt.Sprintf("servers: cannot end process %d that we started: %v", p.Pid(), err))
	}
	<-p.exited
}

// runToEnd runs a command that is not a server, but makes one. If the command fails, the error has what it said.
func runToEnd(cmd *exec.Cmd) error {
	var said bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = environment(), &said, &said
	p, err := StartProcess(cmd)
	if err != nil {
		return err
	}
	<-p.Exited()
	if !cmd.ProcessState.Success() {
		return fmt.Errorf("%s: %v\n%s", cmd.Path, cmd.ProcessState, &said)
	}
	return nil
}

// Freeze stops the process where it is (SIGSTOP): it keeps its connections, and nobody answers on them. All of
// its threads stand still when Freeze returns.
func (p *Process) Freeze() {
	p.frozen.Store(true)
	if p.stop() == nil {
		p.awaitFrozen()
		p.freezeChildren()
	}
}

// Thaw lets a frozen process go on (SIGCONT).
func (p *Process) Thaw() {
	p.thawChildren()
	_ = p.goOn() // a process that is gone needs no thaw
	p.frozen.Store(false)
}
