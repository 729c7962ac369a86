//go:build linux || darwin

package run

import (
	"os"
	"syscall"
)

// start starts the command, as the leader of a process group of its own.
func start(c Command) (pid int, err error) {
	if c.Cgroup != "" {
		if pid, err := startIn(c); err == nil {
			return pid, nil
		}
		c.Cgroup = "" // it cannot be used, or the program not be run, which is found out again
	}
	return startIn(c)
}

func startIn(c Command) (pid int, err error) {
	attr := &syscall.SysProcAttr{Setpgid: true, Foreground: c.Foreground, Ctty: 0}
	files := append([]*os.File{os.Stdin, os.Stdout, os.Stderr}, c.Files...)
	done, err := prepare(attr, c)
	if err != nil {
		return 0, err
	}
	defer done()
	p, err := os.StartProcess(c.Path, c.Args, &os.ProcAttr{Env: c.Env, Files: files, Sys: attr})
	if err != nil {
		return 0, err
	}
	pid = p.Pid
	_ = p.Release() // it is waited for as one of all children
	return pid, nil
}
