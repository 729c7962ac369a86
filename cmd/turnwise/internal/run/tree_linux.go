package run

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// look is how often to look even if nothing has happened: the kernel reports everything that matters.
const look = time.Second

// Adopt makes orphaned descendants children of this process.
func Adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// prepare sets up what only Linux has. The kernel kills the command when the thread that has started it ends, so the caller
// must keep that thread.
func prepare(attr *syscall.SysProcAttr, c Command) (done func(), err error) {
	if c.Mortal {
		attr.Pdeathsig = syscall.SIGKILL
	}
	if c.Cgroup == "" {
		return func() {}, nil
	}
	dir, err := os.Open(c.Cgroup)
	if err != nil {
		return nil, err
	}
	attr.UseCgroupFD, attr.CgroupFD = true, int(dir.Fd())
	return func() { dir.Close() }, nil
}

// KeepThread keeps the calling goroutine on one thread, so that what it starts has a parent thread that lasts.
func KeepThread() { runtime.LockOSThread() }

// others reports whether there are processes that wait4 does not know of: on Linux there are none.
func (t *Tree) others() bool { return false }

// signalAll sends a signal once to each descendant of this process.
func signalAll(t *Tree, sig syscall.Signal) {
	family := descendants(os.Getpid(), t.before)
	for pid := range family {
		send(pid, sig, family)
	}
}

// killAll kills all processes that it finds. Those they have started meanwhile are found the next time.
func killAll(t *Tree) {
	killCgroup(t.command.Cgroup)
	signalGroup(t, unix.SIGKILL) // the whole group at a stroke, if it may be
	signalAll(t, syscall.SIGKILL)
}

func killCgroup(dir string) {
	if dir != "" {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
	}
}

// signalGroup sends a signal to the command's process group. The group's number is the command's, so it is ours until the
// command has been waited for, and after that for as long as a child of ours is in it: only we wait for those. Otherwise it
// may be somebody else's, and only descendants get the signal.
func signalGroup(t *Tree, sig syscall.Signal) {
	if t.pid == 0 {
		return
	}
	in := func(pid int) bool {
		group, err := unix.Getpgid(pid)
		return err == nil && group == t.pid
	}
	self := os.Getpid()
	if !t.exited || slices.ContainsFunc(childrenOf(self), in) {
		_ = unix.Kill(-t.pid, sig)
		return
	}
	family := descendants(self, t.before)
	for pid := range family {
		if in(pid) {
			send(pid, sig, family)
		}
	}
}

// KillBelow kills all that a child of this process has started, and spares the child itself. It returns when nothing of that lives, or
// when it has tried so often that there is no use in going on.
func KillBelow(child int, cgroup string) {
	for range 20 {
		if statOf(child).parent != os.Getpid() { // it has ended, and its number may be another's
			return
		}
		killCgroup(cgroup)
		family := descendants(child, nil)
		parents := maps.Clone(family)
		parents[child] = true
		alive := false
		for pid := range family {
			alive = send(pid, syscall.SIGKILL, parents) || alive
		}
		if !alive {
			return
		}
		time.Sleep(again)
	}
}

// send sends a signal to a descendant, unless it has ended, or its number has gone to another process.
func send(pid int, sig syscall.Signal, family map[int]bool) (sent bool) {
	p, err := Find(pid)
	if err != nil {
		return false
	}
	defer p.Close()
	parent := statOf(pid).parent
	if sent = parent == os.Getpid() || family[parent]; sent {
		p.signal(sig)
	}
	return sent
}

// Children are children that a process has, each with when it began.
type Children map[int]string

// existing returns the children that this process has now: the shell that has become this program by exec may have started some.
func existing() Children {
	all := Children{}
	for _, pid := range childrenOf(os.Getpid()) {
		all.add(pid)
	}
	return all
}

func (c Children) add(pid int)    { c[pid] = statOf(pid).began }
func (c Children) remove(pid int) { delete(c, pid) }

func (c Children) have(pid int) bool {
	began, ok := c[pid]
	return ok && began == statOf(pid).began
}

// others reports whether this process has any children but these.
func (c Children) others() bool {
	return slices.ContainsFunc(childrenOf(os.Getpid()), func(pid int) bool { return !c.have(pid) })
}

// descendants returns the descendants of a process, without some of its children and theirs. Some that are started meanwhile may
// be missing.
func descendants(root int, without Children) map[int]bool {
	family := map[int]bool{}
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, child := range childrenOf(queue[0]) {
			if !family[child] && !without.have(child) {
				family[child] = true
				queue = append(queue, child)
			}
		}
	}
	return family
}

func childrenOf(pid int) (children []int) {
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// Means says how commands are ended on this system.
func Means() string {
	by := "by pidfd"
	if p, err := Find(os.Getpid()); err != nil || p.fd < 0 {
		by = "by their numbers and when they began, since there is no pidfd here"
	} else {
		p.Close()
	}
	if dir, err := NewCgroup(); err == nil {
		RemoveCgroup(dir)
		return "a control group of their own, and as descendants of a subreaper, " + by
	}
	return "being descendants of a subreaper, " + by
}
