//go:build linux || darwin

package cli

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is where the command is in the foreground while it runs, if turnwise was, so that what is typed reaches the
// command and nobody else.
type terminal struct {
	own   int  // our process group
	ours  bool // we were in the foreground of a terminal that is our input and our output
	given bool
	child int // the process group of the command
}

func openTerminal() *terminal {
	t := &terminal{own: unix.Getpgrp()}
	t.ours = term.IsTerminal(0) && term.IsTerminal(1) && foreground() == t.own
	return t
}

func (t *terminal) isOurs() bool { return t.ours }

func foreground() int {
	group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return group
}

// put makes a process group the terminal's foreground. Who is in the background may do that only if it ignores a signal.
func put(group int) {
	ignoring(syscall.SIGTTOU, func() { _ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, group) })
}

// ignoring calls f while a signal is ignored, and not longer: commands that are started later would ignore it, too.
func ignoring(s syscall.Signal, f func()) {
	signal.Ignore(s)
	f()
	caught := make(chan os.Signal, 1) // Reset alone does not undo Ignore
	signal.Notify(caught, s)
	signal.Stop(caught)
}

func (t *terminal) takeBack() {
	if t.given || t.ours {
		put(t.own)
		t.given = false
	}
}

// typed is the signal that ended the command if it was typed, or 0.
func (t *terminal) typed(sig int) syscall.Signal {
	if s := syscall.Signal(sig); t.ours && (s == syscall.SIGINT || s == syscall.SIGQUIT) {
		return s
	}
	return 0
}

// dieOf ends this process by a signal that was typed, so that a script which it is part of ends, too, as it would without us.
// If only the command has got the signal, the others of our group get it as well.
func dieOf(s syscall.Signal, tellGroup bool) {
	signal.Reset(s)
	if tellGroup {
		_ = unix.Kill(0, s)
	}
	_ = unix.Kill(os.Getpid(), s)
	time.Sleep(time.Second) // it comes at once
}

// signal passes a signal on to the command.
func (w *shift) signal(s os.Signal) {
	switch {
	case s == syscall.SIGCONT:
		w.resume()
		return
	case s == syscall.SIGTSTP && w.paused > 0: // it is our own
		w.paused--
		return
	}
	w.child.Signal(s)
	if s == syscall.SIGTERM || s == syscall.SIGHUP {
		w.child.Signal(syscall.SIGCONT) // what is stopped hears of nothing
	}
	if s == syscall.SIGTSTP && foreground() == w.terminal.own { // typed, and the shell waits for us to stop
		w.pause()
	}
}

// stopped is called when the command was stopped. If that was typed, or it wants the terminal and is not in the foreground, the
// shell has to know: it knows us only.
func (w *shift) stopped(s syscall.Signal) {
	if !w.terminal.ours || s == syscall.SIGSTOP {
		return
	}
	w.terminal.takeBack()
	w.pause()
}

// pause stops this process, and those of its group, as a typed SIGTSTP does. A signal that was caught once cannot be given back to
// the system, so this process stops by another one. This thread may run on for a moment; what is to be done afterwards is done
// when SIGCONT comes.
func (w *shift) pause() {
	w.paused++
	_ = unix.Kill(0, syscall.SIGTSTP)
	_ = unix.Kill(os.Getpid(), syscall.SIGSTOP)
}

// resume lets the command go on, in the foreground if we are there now.
func (w *shift) resume() {
	if w.terminal.ours && foreground() == w.terminal.own {
		put(w.terminal.child)
		w.terminal.given = true
	}
	w.child.Signal(syscall.SIGCONT)
}
