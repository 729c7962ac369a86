package servers

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// notAsRoot runs the command as somebody else if we are root: for itself and its files it is an ordinary user, for the
// rest of the system it is still us. So it can read all that we can, wherever that lies.
func notAsRoot(cmd *exec.Cmd) {
	if os.Geteuid() != 0 {
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: 0, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: 0, Size: 1}},
	}
}

func explainRefusal(cmd *exec.Cmd, err error) error {
	if cmd.SysProcAttr.Cloneflags&syscall.CLONE_NEWUSER != 0 && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC)) {
		return fmt.Errorf("it does not run as root, and there are no user namespaces here to run it as somebody else: "+
			"run the tests as another user, or allow namespaces: %w", err)
	}
	return err
}

// awaitFrozen waits until every thread has noticed SIGSTOP: the signal is sent at once, but a thread that runs on
// another core goes on until it is interrupted.
func (p *Process) awaitFrozen() { awaitStopped(p.Pid()) }

func awaitStopped(pid int) {
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if allThreadsStopped(pid) || !exists(pid) {
			return
		}
	}
}

func exists(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return err == nil
}

func allThreadsStopped(pid int) bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // the thread has ended
		}
		// "pid (name) S …": the name may hold anything, so look behind the last parenthesis.
		_, state, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
		if !strings.HasPrefix(state, "T") && !strings.HasPrefix(state, "Z") {
			return false
		}
	}
	return len(stats) > 0
}

// roomIn returns how many bytes fit into a folder; 0 if there is no such folder.
func roomIn(dir string) int64 {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0
	}
	return int64(fs.Bavail) * int64(fs.Bsize)
}

// listens reports whether this process listens on the port, and not another that was quicker.
func (p *Process) listens(port int) bool {
	sockets := listeningSockets(port)
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.Pid()))
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && sockets[target] {
			return true
		}
	}
	return false
}

// listeningSockets returns the sockets that listen on the port, as they are named in /proc/<pid>/fd.
func listeningSockets(port int) map[string]bool {
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} { // Java listens on IPv6's
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode; state 0A listens.
			fields := strings.Fields(lines.Text())
			if len(fields) < 10 || fields[3] != "0A" {
				continue
			}
			_, hex, _ := strings.Cut(fields[1], ":")
			if n, err := strconv.ParseUint(hex, 16, 16); err == nil && int(n) == port {
				sockets["socket:["+fields[9]+"]"] = true
			}
		}
		f.Close()
	}
	return sockets
}
