package run

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

var errNoCgroup = errors.New("there is no control group here in which another can be made")

// NewCgroup makes a control group (version 2) within our own, and returns its folder. All processes in it can be killed at
// a stroke, however fast they start others, and whichever user they have become. It fails if that is not delegated to us.
func NewCgroup() (dir string, err error) {
	own, err := ownCgroup()
	if err != nil {
		return "", err
	}
	sweep(own)
	dir, err = os.MkdirTemp(own, fmt.Sprintf("turnwise-%d-", os.Getpid()))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err != nil { // before Linux 5.14
		os.Remove(dir)
		return "", errNoCgroup
	}
	return dir, nil
}

// sweep removes empty groups that nobody is left to remove, since both turnwise and its guardian were killed.
func sweep(own string) {
	all, _ := filepath.Glob(filepath.Join(own, "turnwise-*-*"))
	for _, dir := range all {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(dir), "turnwise-%d-", &pid); err == nil && pid > 0 && unix.Kill(pid, 0) == unix.ESRCH {
			_ = unix.Rmdir(dir) // not if somebody is in it
		}
	}
}

// RemoveCgroup removes a control group in which nobody is left. The kernel may take a moment to see that.
func RemoveCgroup(dir string) {
	for range 50 {
		if dir == "" || os.Remove(dir) == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func ownCgroup() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		mount, err := cgroupMount()
		return filepath.Join(mount, path), err
	}
	return "", errNoCgroup
}

func cgroupMount() (string, error) {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if fields := strings.Fields(in.Text()); len(fields) > 2 && fields[2] == "cgroup2" {
			return fields[1], nil
		}
	}
	return "", errNoCgroup
}
