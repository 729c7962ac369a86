//go:build linux

package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/verify/servers"
)

// running is a turnwise that runs a command.
type running struct {
	*exec.Cmd
	t      *testing.T
	stderr bytes.Buffer
	log    *tokenLog // what the command writes to, if it does
}

// run runs a command under a lock, in a folder of its own.
func run(t *testing.T, url, line string, command ...string) *running {
	t.Helper()
	return runFor(t, "500ms", url, line, command...)
}

// runFor gives the command so much time to end.
func runFor(t *testing.T, grace, url, line string, command ...string) *running {
	t.Helper()
	args := append([]string{"lock", "-b", url, "--grace", grace, line, "--"}, command...)
	r := &running{t: t, Cmd: exec.Command(filepath.Join(program, "turnwise"), args...)}
	r.Stderr, r.Dir = &r.stderr, t.TempDir()
	r.WaitDelay = time.Second // processes that it has left behind may have our pipe
	require.NoError(t, r.Start())
	t.Cleanup(func() { r.Process.Kill() })
	return r
}

// start returns when the command has made the file "ready".
func start(t *testing.T, url, line string, command ...string) *running {
	t.Helper()
	return run(t, url, line, command...).ready()
}

func (r *running) ready() *running {
	r.t.Helper()
	if !r.starts() {
		r.Process.Kill()
		r.t.Fatalf("its command does not start: exit code %d: %s", r.code(), &r.stderr)
	}
	return r
}

// starts waits until the command has made the file "ready". It is false when turnwise ends before, or a minute is over.
func (r *running) starts() bool {
	ready, state := filepath.Join(r.Dir, "ready"), fmt.Sprintf("/proc/%d/stat", r.Process.Pid)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(state)
		ended := err != nil || strings.Contains(string(text), ") Z ")
		if _, err := os.Stat(ready); err == nil {
			return true
		}
		if ended {
			return false
		}
	}
	return false
}

func (r *running) code() int {
	r.t.Helper()
	done := make(chan error, 1)
	go func() { done <- r.Wait() }()
	select {
	case err := <-done:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
			r.t.Fatal(err)
		}
	case <-time.After(time.Minute):
		r.Process.Kill()
		<-done
		r.t.Fatal("it does not end: ", r.stderr.String())
	}
	r.t.Log(r.stderr.String())
	return r.ProcessState.ExitCode()
}

// guardian is the process number of turnwise's only child.
func (r *running) guardian() int {
	r.t.Helper()
	all := r.children()
	require.NotEmpty(r.t, all)
	return all[0]
}

func (r *running) children() (pids []int) {
	r.t.Helper()
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(r.Process.Pid) + "/task/*/children")
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			require.NoError(r.t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// When nothing is heard from the service, the command is asked to end, then made to, and is dead before the hold has ended.
func TestTheServiceFallsSilent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line     string
		guardian syscall.Signal // that it gets
	}{
		"the command listens":     {`trap "echo >term; exit 0" TERM; echo >ready; while :; do sleep 0.05; done`, 0},
		"it does not":             {`trap "echo >term" TERM; echo >ready; while :; do sleep 0.05; done`, 0},
		"it is stopped":           {`trap "echo >term; exit 0" TERM; echo >ready; kill -STOP $$; sleep 1000`, 0},
		"the guardian is stopped": {`trap "" TERM; echo >ready; echo >term; while :; do sleep 0.05; done`, syscall.SIGSTOP},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := servers.Redis(t)
			r := start(t, "redis://"+cluster.Addrs()[0]+"?session=10s", "a", "sh", "-c", c.line) // a second to kill all in
			if c.guardian != 0 {
				require.NoError(t, syscall.Kill(r.guardian(), c.guardian))
			}
			cluster.Member(0).Freeze()
			defer cluster.Member(0).Thaw()
			assert.Equal(t, 70, r.code())
			assert.FileExists(t, filepath.Join(r.Dir, "term"))
		})
	}
}

// A service that has forgotten who holds lets nobody in before the last deadline of those who did, so the command may put things
// in order before it is killed.
func TestTheServiceForgets(t *testing.T) {
	t.Parallel()
	t.Run("and the command ends when it is asked to", func(t *testing.T) {
		t.Parallel()
		cluster := servers.Redis(t)
		r := runFor(t, "1h", "redis://"+cluster.Addrs()[0]+"?session=10s&longest-session=10s", "a",
			"sh", "-c", `trap "echo >ended; exit 3" TERM; echo >ready; while :; do sleep 0.05; done`).ready()
		cluster.Member(0).Restart(t)
		assert.Equal(t, 71, r.code())
		assert.FileExists(t, filepath.Join(r.Dir, "ended"))
		assert.Regexp(t, `(?m)^turnwise: "a": hold lost: .*forgotten.*: ending the command before anybody else is let in$`, r.stderr.String())
	})
	t.Run("and the command does not", func(t *testing.T) {
		t.Parallel()
		cluster := servers.Redis(t)
		url := "redis://" + cluster.Addrs()[0] + "?session=4s&longest-session=4s"
		r := runFor(t, "1h", url, "a", "sh", "-c", `trap "" TERM; echo >ready; while :; do date >alive; sleep 0.05; done`).ready()
		cluster.Member(0).Restart(t)
		next := run(t, url, "a", "cat", filepath.Join(r.Dir, "alive"))
		assert.Zero(t, next.code())
		alive, err := os.Stat(filepath.Join(r.Dir, "alive"))
		require.NoError(t, err)
		assert.Equal(t, 71, r.code())
		assert.Regexp(t, `turnwise: "a": hold lost: [^\n]*forgotten`, r.stderr.String())
		after, err := os.Stat(filepath.Join(r.Dir, "alive"))
		require.NoError(t, err)
		assert.Equal(t, alive.ModTime(), after.ModTime(), "it ran beside the next one")
	})
}

// A long wait in line is no reason to try for as long to reach the service.
func TestAServiceThatIsNotThereIsNotWaitedForInLine(t *testing.T) {
	t.Parallel()
	began := time.Now()
	cmd := exec.Command(filepath.Join(program, "turnwise"), "lock", "-b", "redis://127.0.0.1:1", "-w", "3m", "a", "--", "true")
	out, _ := cmd.CombinedOutput()
	assert.Equal(t, 69, cmd.ProcessState.ExitCode(), string(out))
	assert.Less(t, time.Since(began), 100*time.Second)
}

func TestTheServiceRefuses(t *testing.T) {
	t.Parallel()
	cluster := servers.Redis(t, servers.Password("secret"))
	for _, url := range []string{"redis://" + cluster.Addrs()[0], "redis://" + cluster.Addrs()[0] + "?password-env=WRONG"} {
		cmd := exec.Command(filepath.Join(program, "turnwise"), "lock", "-b", url, "a", "--", "true")
		cmd.Env = append(os.Environ(), "WRONG=wrong")
		out, err := cmd.CombinedOutput()
		assert.Error(t, err)
		assert.Equal(t, 77, cmd.ProcessState.ExitCode(), string(out))
		assert.Equal(t, 1, strings.Count(string(out), "\n"), string(out))
	}
}

// A service that may have forgotten who holds lets nobody in for a while. Whoever meets that is told so, and not that the service is
// away, or that somebody has the lock.
func TestAServiceThatIsNewSaysThatOneHasToWait(t *testing.T) {
	t.Parallel()
	url := "redis://" + servers.Redis(t).Addrs()[0] + "?root=" + moment()
	for _, how := range [][]string{{"-n"}, {"-w", "2s"}} {
		cmd := exec.Command(filepath.Join(program, "turnwise"), slices.Concat([]string{"lock", "-b", url}, how, []string{"a", "--", "true"})...)
		out, err := cmd.CombinedOutput()
		assert.Error(t, err)
		assert.Equal(t, 75, cmd.ProcessState.ExitCode(), string(out))
		assert.Regexp(t, `lets nobody in for another [0-9.]+s\n$`, string(out), "%v", how)
	}
	out, err := exec.Command(filepath.Join(program, "turnwise"), "doctor", url).CombinedOutput()
	assert.NoError(t, err)
	assert.Contains(t, string(out), "may have forgotten who holds, or is new")
}
