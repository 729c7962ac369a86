//go:build linux || darwin

package cli

import (
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/run"
)

// terminal is where the command is in the foreground while it runs, if turnwise was, so that what is typed reaches only the
// command. If input and output are the terminal, the command is there from its start; otherwise, as within a pipe, it gets there
// when it wants to read, since others in the pipe may want to as well. Signals go to the command through it, because some of them
// stop and resume both, or neither.
type terminal struct {
	own   int  // our process group
	first bool // the command is in the foreground from its start
	among bool // the command is one of several: none of them gets the terminal
	given bool // it is there now

	child  run.Child    // the command
	group  int          // its process group
	paused int          // how many SIGTSTP of our own are on their way
	got    atomic.Int32 // the last INT or QUIT that we were sent while it ran: if typed, all in our group were
}

func openTerminal() *terminal {
	t := &terminal{own: unix.Getpgrp()}
	t.first = term.IsTerminal(0) && term.IsTerminal(1) && foreground() == t.own
	t.given = t.first
	return t
}

// controlling is the terminal that can send us signals; -1: there is none.
var controlling = sync.OnceValue(func() int {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return -1
	}
	return fd
})

// foreground is the process group that has the terminal.
func foreground() int {
	group, err := unix.IoctlGetInt(controlling(), unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return group
}

// put makes a process group the terminal's foreground. From the background that works only while SIGTTOU is ignored.
func put(group int) {
	ignoring(syscall.SIGTTOU, func() { _ = unix.IoctlSetPointerInt(controlling(), unix.TIOCSPGRP, group) })
}

// ignoring calls f while a signal is ignored, but no longer than that: commands started later would ignore it as well.
func ignoring(s syscall.Signal, f func()) {
	signal.Ignore(s)
	f()
	caught := make(chan os.Signal, 1) // Reset alone does not undo Ignore
	signal.Notify(caught, s)
	signal.Stop(caught)
}

// give puts the command into the foreground.
func (t *terminal) give() {
	put(t.group)
	t.given = true
}

// takeBack takes the terminal from the command, if that has it: in the background, it is the shell's.
func (t *terminal) takeBack() {
	if t.given {
		put(t.own)
		t.given = false
	}
}

// typed returns the signal that ended the command, if this process is to end by it as well, or else 0. all says that only the
// command got it, so that our group has to be told.
func (t *terminal) typed(sig int) (s syscall.Signal, all bool) {
	s = syscall.Signal(sig)
	switch {
	case s != syscall.SIGINT && s != syscall.SIGQUIT:
		return 0, false
	case t.given:
		return s, true
	case t.got.Load() == int32(s):
		return s, false
	}
	return 0, false
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
	if s == syscall.SIGINT || s == syscall.SIGQUIT {
		t.got.Store(int32(s.(syscall.Signal)))
	}
	t.send(s)
	if s == syscall.SIGTSTP && foreground() == t.own { // typed, and the shell waits for us to stop
		t.pause()
	}
}

// send sends a signal to the command's process group.
func (t *terminal) send(s os.Signal) {
	t.child.Signal(s)
	if s == syscall.SIGTERM || s == syscall.SIGHUP {
		t.child.Signal(syscall.SIGCONT) // a stopped process would not notice the signal
	}
}

// stopped is called when the command was stopped. If it wants the terminal, it gets it, unless that is somebody else's. If it is in
// the background, or if the stop was typed, the shell has to know, but it knows only us.
func (t *terminal) stopped(s syscall.Signal) {
	wants := s == syscall.SIGTTIN || s == syscall.SIGTTOU
	switch {
	case t.among:
	case wants && foreground() == t.own:
		t.give()
		t.child.Signal(syscall.SIGCONT)
	case wants && foreground() > 0, t.given && s != syscall.SIGSTOP:
		t.takeBack()
		t.pause()
	}
}

// pause stops this process and its group, as a typed SIGTSTP does. A signal that was once caught cannot be given back to
// the system, so this process stops itself by another one. This thread may run on for a moment, so whatever has to be done
// afterwards is done when SIGCONT comes.
func (t *terminal) pause() {
	t.paused++
	_ = unix.Kill(0, syscall.SIGTSTP)
	_ = unix.Kill(os.Getpid(), syscall.SIGSTOP)
}

// resume lets the command go on, in the foreground if it was there from its start and we are there now.
func (t *terminal) resume() {
	if t.first && foreground() == t.own {
		t.give()
	}
	t.child.Signal(syscall.SIGCONT)
}
