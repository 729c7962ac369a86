//go:build linux || darwin

package file

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
)

// Descriptors returns open files by which the kernel knows that the present session of a client lives. A process that
// inherits them, as an exec.Cmd's ExtraFiles, keeps the session after this process has ended, and with it whatever was held
// then. The session lasts until that process has ended as well, and all processes that it has passed them on to. They can do nothing
// else with the files, also if they belong to another user: only this process can end the session while it lives. That is not so on a
// file system without pipes, which WithAnyFileSystem allows: there they can end it. The files stay the client's: do not close them.
//
// The error is coord.ErrInvalid if the client is not one of this package.
func Descriptors(c *coord.Client) ([]*os.File, error) {
	s, err := storeOf(c)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var files []*os.File
	for k := range s.kept {
		if k.pipe != nil {
			files = append(files, k.pipe)
		} else {
			files = append(files, k.file)
		}
	}
	return files, nil
}

// Keepers returns the ids of the processes that keep the session of a node, as far as this process may see them: the node's
// owner, and those that have inherited its Descriptors. It needs Linux; elsewhere it returns none.
func Keepers(c *coord.Client, n coord.Node) ([]int, error) {
	s, err := storeOf(c)
	if err != nil {
		return nil, err
	}
	session, _, ok := strings.Cut(n.ID, "-")
	if !ok || runtime.GOOS != "linux" {
		return nil, nil
	}
	p, err := s.enter()
	if err != nil {
		return nil, err
	}
	file, err := p.kept.dir.stat(nameOf("session/" + session))
	pipe, withoutPipe := p.kept.dir.stat(pipeOf(nameOf("session/" + session)))
	p.leave()
	if err != nil {
		return nil, nil // it has just gone
	}
	all, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, fd := range all {
		pid, err := strconv.Atoi(strings.Split(fd, "/")[2])
		if err == nil && !slices.Contains(pids, pid) && (opens(fd, numberOf(&file)) || withoutPipe == nil && opens(fd, numberOf(&pipe)) && writes(fd)) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

// opens reports whether an entry of /proc stands for a file.
func opens(fd string, file fileNumber) bool {
	number, err := numberAt(fd)
	return err == nil && number == file
}

// writes reports whether an entry of /proc stands for a file that is open for writing, as its mode says: who waits has the pipe open as well.
func writes(fd string) bool {
	var st unix.Stat_t
	return again(func() error { return unix.Lstat(fd, &st) }) == nil && st.Mode&0o200 != 0
}

func storeOf(c *coord.Client) (*Store, error) {
	if d, ok := c.Driver().(*register.Driver); ok {
		if s, ok := d.Store().(*Store); ok {
			return s, nil
		}
	}
	return nil, fmt.Errorf("turnwise: file: the client is not on a directory: %w", coord.ErrInvalid)
}
