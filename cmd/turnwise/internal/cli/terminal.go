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

// terminal is where the command is in the foreground while it runs, if turnwise was, so that what is typed reaches only the
// command.
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

// signal passes a signal on to the command.
func (w *shift) signal(s os.Signal) {
	switch {
	case s == syscall.SIGCONT:
		w.resume()
		return
	case s == syscall.SIGTSTP && w.paused > 0: // sent by ourselves
		w.paused--
		return
	}
	w.child.Signal(s)
	if s == syscall.SIGTERM || s == syscall.SIGHUP {
		w.child.Signal(syscall.SIGCONT) // a stopped process would not notice the signal
	}
	if s == syscall.SIGTSTP && foreground() == w.terminal.own { // typed, and the shell waits for us to stop
		w.pause()
	}
}

// stopped is called when the command was stopped. If that was typed, or the command wants the terminal while in the
// background, the shell has to know, but it knows only us.
func (w *shift) stopped(s syscall.Signal) {
	if !w.terminal.ours || s == syscall.SIGSTOP {
		return
	}
	w.terminal.takeBack()
	w.pause()
}

// pause stops this process and its group, as a typed SIGTSTP does. A signal that was once caught cannot be given back to
// the system, so this process stops itself by another one. This thread may run on for a moment, so whatever has to be done
// afterwards is done when SIGCONT comes.
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

// canDraw reports whether there is a terminal that can be redrawn.
func canDraw() bool {
	kind := os.Getenv("TERM")
	return term.IsTerminal(0) && term.IsTerminal(1) && kind != "" && kind != "dumb"
}

func drawn(err error) error {
	if err != nil {
		return fail(codeUnusable, "this terminal cannot be drawn on (%w): append | cat for plain lines", err)
	}
	return nil
}
