package servers

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// A family is what a process has started itself, while that is frozen. Nobody but its stopped parent could reap one of
// them, so none of the ids is given to another process meanwhile.
type family struct {
	mu     sync.Mutex
	frozen []int
	heir   *heir
}

// freezeChildren is called when the process itself stands still, and starts no more.
func (p *Process) freezeChildren() {
	p.family.mu.Lock()
	defer p.family.mu.Unlock()
	if p.family.heir != nil {
		return // they are frozen already
	}
	p.family.frozen = stopChildren(p.Pid())
	if len(p.family.frozen) > 0 {
		p.family.heir = appointHeir(p.family.frozen)
	}
}

func (p *Process) thawChildren() {
	p.family.mu.Lock()
	defer p.family.mu.Unlock()
	p.family.heir.dismiss()
	for _, pid := range p.family.frozen {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	p.family.frozen, p.family.heir = nil, nil
}

// killChildren stops the process first: a child that is left behind would keep the data from being opened again.
func (p *Process) killChildren() {
	if len(childrenOf(p.Pid())) == 0 || p.stop() != nil {
		return
	}
	p.awaitFrozen()
	p.family.mu.Lock()
	defer p.family.mu.Unlock()
	for _, pid := range stopChildren(p.Pid()) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	p.family.heir.dismiss()
	p.family.frozen, p.family.heir = nil, nil
}

// stopChildren stops all that descend from a process that stands still, and returns them.
func stopChildren(parent int) []int {
	var all []int
	for _, pid := range childrenOf(parent) {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		awaitStopped(pid)
		all = append(append(all, pid), stopChildren(pid)...)
	}
	return all
}

func childrenOf(parent int) []int {
	var children []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state parent …": the name may hold anything, so look behind the last parenthesis.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
			children = append(children, pid)
		}
	}
	return children
}

// An heir kills frozen grandchildren if we die: the kernel kills our own child with us, and others learn of its end by
// themselves, but not while they are frozen.
type heir struct {
	cmd  *exec.Cmd
	life io.Closer // it closes with us
}

func appointHeir(frozen []int) *heir {
	args := []string{"-c", `read -r nothing; kill -KILL "$@"`, "sh"}
	for _, pid := range frozen {
		args = append(args, strconv.Itoa(pid))
	}
	cmd := exec.Command("sh", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	ownGroup(cmd.SysProcAttr)
	life, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		panic(fmt.Sprintf("servers: cannot start sh: %v", err))
	}
	return &heir{cmd, life}
}

func (h *heir) dismiss() {
	if h == nil {
		return
	}
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
	_ = h.life.Close()
}
