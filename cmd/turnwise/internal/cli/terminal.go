//go:build linux || darwin

package cli

import (
	"os"
	"os/signal"
	"syscall"

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

// put makes a process group the terminal's foreground. Who is in the background may do that only if it ignores a signal, which
// a command that is started meanwhile would ignore, too.
func put(group int) {
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, group)
}

func (t *terminal) takeBack() {
	if t.given || t.ours {
		put(t.own)
		t.given = false
	}
}

// echo sends a signal that was typed, and ended the command, to whoever else would have got it: the script, say, that
// turnwise runs in.
func (t *terminal) echo(sig int) {
	if !t.ours || sig != int(syscall.SIGINT) && sig != int(syscall.SIGQUIT) || t.own == os.Getpid() {
		return
	}
	signal.Ignore(syscall.Signal(sig))
	_ = unix.Kill(0, syscall.Signal(sig))
}

// signal passes a signal on to the command.
func (w *shift) signal(s os.Signal) {
	if s == syscall.SIGCONT {
		w.resume()
		return
	}
	w.child.Signal(s)
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

// pause stops this process, and those of its group, as a typed SIGTSTP does. It returns when they go on.
func (w *shift) pause() {
	signal.Reset(syscall.SIGTSTP)
	_ = unix.Kill(0, syscall.SIGTSTP)
	signal.Notify(w.signals.pass, syscall.SIGTSTP)
	w.resume()
}

// resume lets the command go on, in the foreground if we are there now.
func (w *shift) resume() {
	if w.terminal.ours && foreground() == w.terminal.own {
		put(w.terminal.child)
		w.terminal.given = true
	}
	w.child.Signal(syscall.SIGCONT)
}
