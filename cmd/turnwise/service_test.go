//go:build linux

package main_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/verify/servers"
)

// running is a turnwise whose command has begun.
type running struct {
	*exec.Cmd
	t      *testing.T
	stderr bytes.Buffer
}

// start runs a line for the shell under a lock, and returns when it has made the file "ready".
func start(t *testing.T, url, line string, flags ...string) *running {
	t.Helper()
	args := append([]string{"lock", "-b", url, "--grace", "500ms"}, flags...)
	r := &running{t: t, Cmd: exec.Command(filepath.Join(program, "turnwise"), append(args, "a", "--", "sh", "-c", line)...)}
	r.Stderr = &r.stderr
	require.NoError(t, r.Start())
	t.Cleanup(func() { r.Process.Kill() })
	require.Eventually(t, func() bool { _, err := os.Stat("ready"); return err == nil }, time.Minute, 10*time.Millisecond)
	return r
}

func (r *running) code() int {
	r.t.Helper()
	done := make(chan error, 1)
	go func() { done <- r.Wait() }()
	select {
	case err := <-done:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			r.t.Fatal(err)
		}
	case <-time.After(time.Minute):
		r.t.Fatal("it does not end: ", r.stderr.String())
	}
	r.t.Log(r.stderr.String())
	return r.ProcessState.ExitCode()
}

// guardian is the process number of turnwise's only child.
func (r *running) guardian() int {
	r.t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(r.Process.Pid) + "/task/" + strconv.Itoa(r.Process.Pid) + "/children")
	require.NoError(r.t, err)
	all, _ := filepath.Glob("/proc/" + strconv.Itoa(r.Process.Pid) + "/task/*/children")
	for _, task := range all {
		more, _ := os.ReadFile(task)
		text = append(text, more...)
	}
	pid, err := strconv.Atoi(strings.Fields(string(text))[0])
	require.NoError(r.t, err)
	return pid
}

// When nothing is heard of the service the command is asked to end, made to, and dead before the hold has ended.
func TestTheServiceFallsSilent(t *testing.T) {
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
			t.Chdir(t.TempDir())
			cluster := servers.Redis(t)
			r := start(t, "redis://"+cluster.Addrs()[0]+"?session=4s", c.line)
			if c.guardian != 0 {
				require.NoError(t, syscall.Kill(r.guardian(), c.guardian))
			}
			cluster.Member(0).Freeze()
			defer cluster.Member(0).Thaw()
			assert.Equal(t, 70, r.code())
			assert.FileExists(t, "term")
		})
	}
}

// A service that has forgotten who held says so, and nobody could know beforehand.
func TestTheServiceForgets(t *testing.T) {
	t.Chdir(t.TempDir())
	cluster := servers.Redis(t)
	r := start(t, "redis://"+cluster.Addrs()[0]+"?session=4s", `trap "" TERM; echo >ready; while :; do sleep 0.05; done`)
	cluster.Member(0).Restart(t)
	assert.Equal(t, 71, r.code())
	assert.Contains(t, r.stderr.String(), "hold lost")
}

func TestTheServiceRefuses(t *testing.T) {
	cluster := servers.Redis(t, servers.Password("secret"))
	t.Setenv("WRONG", "wrong")
	for _, url := range []string{"redis://" + cluster.Addrs()[0], "redis://" + cluster.Addrs()[0] + "?password-env=WRONG"} {
		cmd := exec.Command(filepath.Join(program, "turnwise"), "lock", "-b", url, "a", "--", "true")
		out, err := cmd.CombinedOutput()
		assert.Error(t, err)
		assert.Equal(t, 77, cmd.ProcessState.ExitCode(), string(out))
		assert.Equal(t, 1, strings.Count(string(out), "\n"), string(out))
	}
}
