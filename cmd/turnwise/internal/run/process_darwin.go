package run

import (
	"context"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a process that is not our child. Once it has ended its number may be another's; when it began tells them apart.
type Process struct {
	pid   int
	began unix.Timeval
}

// Find returns a process that lives.
func Find(pid int) (*Process, error) {
	if pid <= 0 {
		return nil, syscall.ESRCH
	}
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid {
		return nil, syscall.ESRCH
	}
	p := &Process{pid: pid, began: info.Proc.P_starttime}
	if !p.Alive() {
		return nil, syscall.ESRCH
	}
	return p, nil
}

// Close forgets the process.
func (p *Process) Close() {}

// zombie is the state of a process that has ended and was not waited for.
const zombie = 5

// Alive reports whether it has not ended. A zombie has.
func (p *Process) Alive() bool {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", p.pid)
	return err == nil && int(info.Proc.P_pid) == p.pid && info.Proc.P_starttime == p.began && info.Proc.P_stat != zombie
}

// Outlive returns when the process has ended, or ctx has.
func (p *Process) Outlive(ctx context.Context) {
	for p.Alive() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}
