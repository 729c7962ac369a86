//go:build linux || darwin

package cli

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/run"
)

// terminal is where the command is in the foreground while it runs, if turnwise was, so that what is typed reaches only the
// command. Signals go to the command through it, because some of them stop and resume both, or neither.
type terminal struct {
	own   int  // our process group
	ours  bool // we were in the foreground of a terminal that is our input and our output
	given bool

	child  run.Child // the command
	group  int       // its process group
	paused int       // how many SIGTSTP of our own are on their way
}

func openTerminal() *terminal {
	t := &terminal{own: unix.Getpgrp()}
	t.ours = term.IsTerminal(0) && term.IsTerminal(1) && foreground() == t.own
	return t
}

func foreground() int {
	group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return group
}

// put makes a process group the terminal's foreground. From the background that works only while SIGTTOU is ignored.
func put(group int) {
	ignoring(syscall.SIGTTOU, func() { _ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, group) })
}

// ignoring calls f while a signal is ignored, but no longer than that: commands started later would ignore it as well.
func ignoring(s syscall.Signal, f func()) {
	signal.Ignore(s)
	f()
	caught := make(chan os.Signal, 1) // Reset alone does not undo Ignore
	signal.Notify(caught, s)
	signal.Stop(caught)
}

// giveTo says which command has the foreground from now on, if it was ours.
func (t *terminal) giveTo(child run.Child) { t.child, t.given = child, t.ours }

func (t *terminal) takeBack() {
	if t.given || t.ours {
		put(t.own)
		t.given = false
	}
}

// typed returns the signal that ended the command, if it was typed, or else 0.
func (t *terminal) typed(sig int) syscall.Signal {
	if s := syscall.Signal(sig); t.ours && (s == syscall.SIGINT || s == syscall.SIGQUIT) {
		return s
	}
	return 0
}

// dieOf ends this process by a signal that was typed, so that a script it is part of ends as well, as it would without us.
// If only the command got the signal, tellGroup sends it to the rest of our group.
func dieOf(s syscall.Signal, tellGroup bool) {
	signal.Reset(s)
	if tellGroup {
		_ = unix.Kill(0, s)
	}
	_ = unix.Kill(os.Getpid(), s)
	time.Sleep(time.Second) // the signal comes at once
}

// pass passes a signal on to the command.
func (t *terminal) pass(s os.Signal) {
	switch {
	case s == syscall.SIGCONT:
		t.resume()
		return
	case s == syscall.SIGTSTP && t.paused > 0: // sent by ourselves
		t.paused--
		return
	}
	t.child.Signal(s)
	if s == syscall.SIGTERM || s == syscall.SIGHUP {
		t.child.Signal(syscall.SIGCONT) // a stopped process would not notice the signal
	}
	if s == syscall.SIGTSTP && foreground() == t.own { // typed, and the shell waits for us to stop
		t.pause()
	}
}

// stopped is called when the command was stopped. If that was typed, or the command wants the terminal while in the
// background, the shell has to know, but it knows only us.
func (t *terminal) stopped(s syscall.Signal) {
	if !t.ours || s == syscall.SIGSTOP {
		return
	}
	t.takeBack()
	t.pause()
}

// pause stops this process and its group, as a typed SIGTSTP does. A signal that was once caught cannot be given back to
// the system, so this process stops itself by another one. This thread may run on for a moment, so whatever has to be done
// afterwards is done when SIGCONT comes.
func (t *terminal) pause() {
	t.paused++
	_ = unix.Kill(0, syscall.SIGTSTP)
	_ = unix.Kill(os.Getpid(), syscall.SIGSTOP)
}

// resume lets the command go on, in the foreground if we are there now.
func (t *terminal) resume() {
	if t.ours && foreground() == t.own {
		put(t.group)
		t.given = true
	}
	t.child.Signal(syscall.SIGCONT)
}
