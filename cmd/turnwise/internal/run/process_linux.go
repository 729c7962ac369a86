package run

import (
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a process that is not our child. Its number may be another's once it has ended, and this is noticed: by a pidfd or,
// where there is none (before Linux 5.3, or forbidden), by when the process began.
type Process struct {
	pid   int
	fd    int // -1: there is none
	began string
}

// pidfdOpen can be replaced in tests.
var pidfdOpen = unix.PidfdOpen

// Find returns a process that lives.
func Find(pid int) (*Process, error) {
	if pid <= 0 {
		return nil, syscall.ESRCH
	}
	p := &Process{pid: pid, fd: -1}
	if fd, err := pidfdOpen(pid, 0); err == nil {
		p.fd = fd
	} else if p.began = statOf(pid).began; p.began == "" {
		return nil, syscall.ESRCH
	}
	if !p.Alive() {
		p.Close()
		return nil, syscall.ESRCH
	}
	return p, nil
}

// Close forgets the process.
func (p *Process) Close() {
	if p.fd >= 0 {
		unix.Close(p.fd)
	}
}

// Alive reports whether it has not ended. A zombie has.
func (p *Process) Alive() bool {
	if p.fd < 0 {
		now := statOf(p.pid)
		return now.began == p.began && now.state != "Z" && now.state != "X"
	}
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, 0)
	return n == 0 || err == unix.EINTR
}

// signal sends it a signal. Without a pidfd the number may go to another process in the moment between the look and the signal;
// the kernel gives numbers out in turn, so that takes as many new processes as there are numbers.
func (p *Process) signal(sig syscall.Signal) {
	if p.fd >= 0 {
		if err := unix.PidfdSendSignal(p.fd, sig, nil, 0); err == nil || err == unix.ESRCH {
			return
		}
	}
	if p.Alive() {
		_ = unix.Kill(p.pid, sig)
	}
}

// Outlive returns when the process has ended, or ctx has.
func (p *Process) Outlive(ctx context.Context) {
	for p.Alive() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// stat is what the kernel says of a process; all is empty if there is none.
type stat struct {
	state  string
	parent int
	began  string // in ticks since the machine's start
}

func statOf(pid int) (s stat) {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])) // from the third on
	if len(fields) < 20 {
		return s
	}
	s.state, s.began = fields[0], fields[19]
	s.parent, _ = strconv.Atoi(fields[1])
	return s
}
