//go:build linux || darwin

package run

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// start starts the command, as the leader of a process group of its own.
func start(c Command) (pid int, err error) {
	if c.Cgroup != "" {
		if pid, err := startIn(c); err == nil {
			return pid, nil
		}
		c.Cgroup = "" // either the group cannot be used, or the program cannot be run, which the next try shows
	}
	return startIn(c)
}

func startIn(c Command) (pid int, err error) {
	attr := &syscall.SysProcAttr{Setpgid: true, Foreground: c.Foreground, Ctty: 0}
	done, err := prepare(attr, c)
	if err != nil {
		return 0, err
	}
	defer done()
	_, passed, err := Pass(c.Files)
	if err != nil {
		return 0, err
	}
	defer passed()
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	p, err := os.StartProcess(c.Path, c.Args, &os.ProcAttr{Env: c.Env, Files: files, Sys: attr})
	if errors.Is(err, unix.ENOEXEC) { // a script without a first line that says what runs it: shells run it themselves
		args := append([]string{"sh", c.Path}, c.Args[1:]...)
		p, err = os.StartProcess("/bin/sh", args, &os.ProcAttr{Env: c.Env, Files: files, Sys: attr})
	}
	if err != nil {
		return 0, err
	}
	pid = p.Pid
	_ = p.Release() // it is waited for together with all other children
	return pid, nil
}

// passedFrom is the first number of the additional files that a command inherits. Scripts take the small numbers for
// themselves, and files that we were given under small numbers are for the command.
const passedFrom = 100

// Pass lets all processes that are started before done is called inherit files, and returns the numbers of those files in
// them.
func Pass(files []*os.File) (numbers []int, done func(), err error) {
	done = func() {
		for _, n := range numbers {
			_ = unix.Close(n)
		}
	}
	for _, f := range files {
		n, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, passedFrom)
		if err == unix.EINVAL { // numbers that high are not allowed here
			n, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD, 3)
		}
		if err != nil {
			done()
			return nil, nil, err
		}
		numbers = append(numbers, n)
	}
	return numbers, done, nil
}
