//go:build linux || darwin

package run

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Tree is a command that this process has started, with everything that the command has started. A process has one tree at
// a time, and no other children meanwhile.
type Tree struct {
	command Command
	pid     int // of the command and of its process group
	events  chan Event
	calls   chan func()
	before  Children // they are not killed
	gone    chan struct{}

	exited  bool
	limit   Limit
	termed  bool
	killing bool
}

// Start starts a command.
func Start(c Command) (*Tree, error) {
	Adopt()
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGCHLD)
	pid, err := start(c)
	if err != nil {
		signal.Stop(changed)
		return nil, err
	}
	t := &Tree{command: c, pid: pid, events: make(chan Event, 64), calls: make(chan func()), gone: make(chan struct{})}
	t.events <- Event{What: Started, Pid: pid}
	go t.run(changed)
	return t, nil
}

func (t *Tree) Events() <-chan Event { return t.events }

func (t *Tree) Limit(l Limit) {
	t.call(func() {
		if !t.termed {
			t.limit = l
		}
	})
}

func (t *Tree) Signal(s os.Signal) {
	t.call(func() { signalGroup(t, s.(syscall.Signal)) })
}

func (t *Tree) Tell(s os.Signal) {
	t.call(func() {
		if !t.exited { // until it has been waited for, the number is its own
			_ = unix.Kill(t.pid, s.(syscall.Signal))
		}
	})
}

func (t *Tree) End(grace time.Duration) {
	t.call(func() {
		t.limit.Term = Now()
		if kill := In(grace); t.limit.Kill == 0 || kill < t.limit.Kill {
			t.limit.Kill = kill
		}
	})
}

// call has the tree's goroutine call f, unless the tree has gone.
func (t *Tree) call(f func()) {
	select {
	case t.calls <- f:
	case <-t.gone:
	}
}

// again is how soon processes that have not died are killed again: they may have started others meanwhile.
const again = 5 * time.Millisecond

func (t *Tree) run(changed chan os.Signal) {
	defer signal.Stop(changed)
	defer close(t.gone)
	defer close(t.events)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if t.reap() {
			t.events <- Event{What: Gone, At: Now()}
			return
		}
		timer.Reset(t.next())
		select {
		case <-changed:
		case f := <-t.calls:
			f()
		case <-timer.C:
		}
		t.enforce()
	}
}

// next returns how long until there is something to do even if nothing happens.
func (t *Tree) next() time.Duration {
	d := look
	switch {
	case t.killing:
		d = again
	case t.termed:
		d = min(d, t.limit.Kill.Until())
	case t.limit.Term != 0:
		d = min(d, t.limit.Term.Until())
	}
	return max(d, 0)
}

// enforce does what the limit demands.
func (t *Tree) enforce() {
	now := Now()
	if !t.termed && t.limit.Term != 0 && now >= t.limit.Term {
		t.termed = true
		t.events <- Event{What: Endangered}
		if now < t.limit.Kill {
			signalAll(t, syscall.SIGTERM)
			signalAll(t, syscall.SIGCONT) // a stopped process would not notice the signal
		}
	}
	if t.termed && now >= t.limit.Kill {
		t.killing = true
		killAll(t)
	}
}

// reap collects what has become of children, and reports whether everything that counts has gone.
func (t *Tree) reap() (gone bool) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG|unix.WUNTRACED, nil)
		switch {
		case err == unix.EINTR:
		case err == unix.ECHILD:
			return t.exited && !t.others()
		case pid <= 0:
			return t.exited && t.command.Alone && !t.killing
		case pid != t.pid:
		case status.Stopped():
			t.events <- Event{What: Stopped, Signal: int(status.StopSignal())}
		case status.Exited():
			t.exited = true
			t.events <- Event{What: Exited, Code: status.ExitStatus()}
		case status.Signaled():
			t.exited = true
			t.events <- Event{What: Exited, Code: 128 + int(status.Signal()), Status: int(status.Signal())}
		}
	}
}

// kept are the children of this process that KillAll spares: those that look after commands, and those that were there before any of
// these. They are locked while a new one starts, which would otherwise be killed as an orphan.
var kept struct {
	sync.Mutex
	Children
	keepers int
}

// Keep starts a process that is to look after a command. KillAll spares it until it is forgotten.
func Keep(start func() (*os.Process, error)) (p *os.Process, forget func(), err error) {
	kept.Lock()
	defer kept.Unlock()
	if kept.keepers == 0 {
		kept.Children = existing()
	}
	if p, err = start(); err != nil {
		return nil, nil, err
	}
	kept.keepers++
	kept.add(p.Pid)
	return p, sync.OnceFunc(func() {
		kept.Lock()
		defer kept.Unlock()
		kept.keepers--
		kept.remove(p.Pid)
	}), nil
}

// KillAll kills all that has been left to this process by keepers that have died, and returns when nothing of that is left. Those must have
// been forgotten.
func KillAll(cgroup string) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err == unix.ECHILD || !killOrphans(cgroup) {
			return
		}
		if pid <= 0 {
			time.Sleep(again)
		}
	}
}

// killOrphans reports whether there was anything to kill.
func killOrphans(cgroup string) (were bool) {
	kept.Lock()
	defer kept.Unlock()
	if !kept.others() {
		return false
	}
	killAll(&Tree{command: Command{Cgroup: cgroup}, before: kept.Children})
	return true
}
