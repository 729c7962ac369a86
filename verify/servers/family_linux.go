package servers

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A family is the processes that a process has started, while all of them are frozen. Only their stopped parent could reap
// them, so none of their ids goes to another process meanwhile.
type family struct {
	mu     sync.Mutex
	frozen []int
	heir   *heir
}

// freezeChildren is called when the process itself stands still, and starts no more children.
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
	if len(offspring(p.Pid())) == 0 || p.stop() != nil {
		return
	}
	p.awaitFrozen()
	p.family.mu.Lock()
	defer p.family.mu.Unlock()
	children := stopChildren(p.Pid())
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, pid := range children {
		awaitEnd(pid)
	}
	p.family.heir.dismiss()
	p.family.frozen, p.family.heir = nil, nil
}

// awaitEnd waits until a killed process holds nothing any more; its parent need not have reaped it.
func awaitEnd(pid int) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if fields := status(strconv.Itoa(pid)); len(fields) == 0 || fields[0] == "Z" || fields[0] == "X" {
			return
		}
	}
}

// stopChildren stops all descendants of a process that stands still, and returns them.
func stopChildren(parent int) []int {
	var stopped []int
	for {
		running := slices.DeleteFunc(offspring(parent), func(pid int) bool { return slices.Contains(stopped, pid) })
		if len(running) == 0 {
			return stopped
		}
		for _, pid := range running {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
		for _, pid := range running {
			awaitStopped(pid)
		}
		stopped = append(stopped, running...)
	}
}

// offspring returns all descendants of a process.
func offspring(ancestor int) []int {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		fields := status(entry.Name())
		if len(fields) < 2 {
			continue // it has ended
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	all := slices.Clone(children[ancestor])
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// status returns what the kernel says of a process: its state, its parent, …; nothing if there is none.
func status(pid string) []string {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return nil
	}
	// "pid (name) state parent …": the name may hold anything, so look behind the last parenthesis.
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

// TakenByAll returns the processor time that all descendants of this process have used so far, and the bytes that they have: what
// several have together is divided among them.
func TakenByAll() (busy time.Duration, memory float64, err error) {
	const tick = time.Second / 100 // Linux says so to programs, whatever its own is
	for _, pid := range offspring(os.Getpid()) {
		// By proc(5) the state is the third field; the times are the 14th and the 15th.
		if fields := status(strconv.Itoa(pid)); len(fields) > 15-3 {
			user, _ := strconv.Atoi(fields[14-3])
			system, _ := strconv.Atoi(fields[15-3])
			busy += time.Duration(user+system) * tick
		}
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		_, behind, _ := strings.Cut(string(text), "\nPss:")
		if words := strings.Fields(behind); len(words) > 0 {
			kilobytes, _ := strconv.ParseFloat(words[0], 64)
			memory += 1024 * kilobytes
		}
	}
	return busy, memory, nil
}

// An heir kills frozen grandchildren if we die. The kernel kills our own child with us; its children would notice that by
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
