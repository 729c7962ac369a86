//go:build linux || darwin

package guard

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/run"
)

// stops, if set, is the signal that the guardian sends itself when it has started the command, before it reports that.
const stops = "TURNWISE_TEST_GUARDIAN_STOPS"

// begins, if set, is how long it takes until the guardian does anything, as on a busy machine.
const begins = "TURNWISE_TEST_GUARDIAN_BEGINS"

// TestMain is the guardian where Start starts this program as one.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) < 2 || os.Args[1] != Name:
		os.Exit(m.Run())
	case os.Getenv(stops) == "":
		late, _ := time.ParseDuration(os.Getenv(begins))
		time.Sleep(late)
		os.Exit(Main())
	}
	run.KeepThread()
	conn, err := socket()
	if err != nil {
		panic(err)
	}
	var first order
	if err := json.NewDecoder(conn).Decode(&first); err != nil {
		panic(err)
	}
	first.Start.Mortal = true
	if _, err := run.Start(*first.Start); err != nil {
		panic(err)
	}
	signal, _ := strconv.Atoi(os.Getenv(stops))
	_ = syscall.Kill(os.Getpid(), syscall.Signal(signal))
	select {}
}

// endless is a command that ends only when it is killed, and writes its number into a file.
func endless(t *testing.T) (c run.Command, started func() (pid int)) {
	file := filepath.Join(t.TempDir(), "pid")
	line := `trap "" TERM; echo $$ >"$0.new"; mv "$0.new" "$0"; while :; do sleep 0.05; done`
	c = run.Command{Path: "/bin/sh", Args: []string{"sh", "-c", line, file}, Env: os.Environ()}
	return c, func() int {
		text, err := os.ReadFile(file)
		if err != nil {
			return 0
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		return pid
	}
}

// once returns a limit that does not change.
func once(l run.Limit) func() (run.Limit, bool) {
	return func() (run.Limit, bool) { return l, false }
}

func in(d time.Duration) run.Limit {
	return run.Limit{Term: run.In(d), Kill: run.In(d), Last: run.In(d + d/2)}
}

// told returns what has happened, once all of it is over.
func told(t *testing.T, r *Remote) (what []run.What) {
	for limit := time.After(time.Minute); ; {
		select {
		case e, more := <-r.Events():
			if !more {
				return what
			}
			what = append(what, e.What)
		case <-limit:
			t.Fatalf("it does not end; so far %v", what)
		}
	}
}

func dead(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }

// outcome is what happens to a command whose limit is known when it starts. The time until then must be enough for it to
// start, so on a busy machine there is more of it.
func outcome(t *testing.T) (what []run.What) {
	for limit := 2 * time.Second; ; limit *= 2 {
		c, pid := endless(t)
		r, err := Start(c, "a test", once(in(limit)))
		require.NoError(t, err)
		what = told(t, r)
		if pid() == 0 && limit < 30*time.Second {
			t.Logf("within %v the command has not run", limit)
			continue
		}
		require.NotZero(t, pid(), "the command has not run")
		assert.True(t, dead(pid()), "the command runs on")
		return what
	}
}

// Whoever stops the guardian may do so at any time, even before it has said that the command runs.
func TestAGuardianThatIsStoppedAtOnceIsNotReliedOn(t *testing.T) {
	t.Setenv(stops, strconv.Itoa(int(syscall.SIGSTOP)))
	assert.Equal(t, []run.What{run.Endangered, run.Exited, run.Gone}, outcome(t))
}

// What a command is given may be more than the socket has room for.
func TestAGuardianThatBeginsLateStillStartsALongCommand(t *testing.T) {
	t.Setenv(begins, "2s")
	long := strings.Repeat("x", 100_000)
	r, err := Start(run.Command{Path: "/bin/sh", Args: []string{"sh", "-c", "exit 0", long, long, long, long, long}, Env: os.Environ()},
		"a test", once(run.Limit{}))
	require.NoError(t, err)
	assert.Equal(t, []run.What{run.Started, run.Exited, run.Gone}, told(t, r))
}

// If it is killed then, the command may have begun, and is not said to be one that cannot be run.
func TestAGuardianThatIsKilledAtOnceLeavesNobodyBehind(t *testing.T) {
	t.Setenv(stops, strconv.Itoa(int(syscall.SIGKILL)))
	c, pid := endless(t)
	r, err := Start(c, "a test", once(run.Limit{}))
	require.NoError(t, err)
	assert.Equal(t, []run.What{run.Exited, run.Gone}, told(t, r))
	assert.True(t, pid() == 0 || dead(pid()), "the command runs on")
}

// If turnwise is stopped before it can say more, the guardian knows the limit all the same.
func TestTheLimitHoldsFromTheStart(t *testing.T) {
	assert.Equal(t, []run.What{run.Started, run.Endangered, run.Exited, run.Gone}, outcome(t))
}

func TestACommandWhoseTimeIsOverIsNotStarted(t *testing.T) {
	c, pid := endless(t)
	r, err := Start(c, "a test", once(run.Limit{Term: 1, Kill: 1, Last: run.In(time.Second)}))
	require.NoError(t, err)
	assert.Equal(t, []run.What{run.Endangered, run.Exited, run.Gone}, told(t, r))
	assert.Zero(t, pid(), "the command has run")
}

// A hold may be sure for a moment only when it is granted, and for longer by the time that the guardian runs.
func TestACommandStartsOnceTheHoldGoesOn(t *testing.T) {
	c, pid := endless(t)
	calls := 0
	r, err := Start(c, "a test", func() (run.Limit, bool) {
		if calls++; calls == 10 {
			return run.Limit{}, true
		}
		return run.Limit{Term: 1, Kill: 1, Last: run.In(time.Minute)}, calls == 1
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return pid() != 0 }, time.Minute, 10*time.Millisecond)
	r.End(0)
	assert.Equal(t, []run.What{run.Started, run.Endangered, run.Exited, run.Gone}, told(t, r))
}

func TestWithoutALimitNothingEndsIt(t *testing.T) {
	c, pid := endless(t)
	r, err := Start(c, "a test", once(run.Limit{}))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return pid() != 0 }, time.Minute, 10*time.Millisecond)
	select {
	case e := <-r.Events():
		assert.Equal(t, run.Started, e.What)
	case <-time.After(time.Minute):
		t.Fatal("it is not started")
	}
	r.End(0)
	assert.Equal(t, []run.What{run.Endangered, run.Exited, run.Gone}, told(t, r))
}

// A guardian that does not report in time may only be slow, and turnwise may be killed at any time. So all that the command has
// started, detached as it may be, is dead before the guardian is given up.
func TestTheGuardianIsGivenUpLast(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system does not tell who has started whom")
	}
	for range 10 {
		givenUpLast(t)
	}
}

// isKilled reports whether a process is to die, and has not come to that yet, as on a busy machine.
func isKilled(t *testing.T, pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return true // it has ended just now
	}
	for line := range strings.Lines(string(status)) {
		if name, mask, _ := strings.Cut(line, ":"); name == "SigPnd" || name == "ShdPnd" {
			pending, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			require.NoError(t, err)
			if pending>>(syscall.SIGKILL-1)&1 == 1 {
				return true
			}
		}
	}
	return strings.Contains(string(status), "State:\tZ") || strings.Contains(string(status), "State:\tX")
}

func givenUpLast(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	line := `setsid sh -c 'trap "" TERM; echo $$ >"$0.new"; mv "$0.new" "$0"; while :; do sleep 0.05; done' "$0" & wait`
	r, err := Start(run.Command{Path: "/bin/sh", Args: []string{"sh", "-c", line, file}, Env: os.Environ()}, "a test", once(run.Limit{}))
	require.NoError(t, err)
	require.Eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, time.Minute, 10*time.Millisecond)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	detached, err := run.Find(pid)
	require.NoError(t, err)
	defer detached.Close()
	guardian, err := run.Find(r.Pid())
	require.NoError(t, err)
	defer guardian.Close()

	require.NoError(t, syscall.Kill(r.Pid(), syscall.SIGSTOP))
	r.Limit(in(100 * time.Millisecond))
	for guardian.Alive() {
	}
	assert.True(t, !detached.Alive() || isKilled(t, pid), "nobody is left to kill it if turnwise is killed now")
	assert.Contains(t, told(t, r), run.Gone)
}

// A process may look after several commands at a time. If a guardian is killed, what it has left behind is found among all that this
// process has started, and only that is killed.
func TestAGuardianThatIsKilledHarmsNoOtherCommand(t *testing.T) {
	c, pid := endless(t)
	spared, err := Start(c, "spared", once(run.Limit{}))
	require.NoError(t, err)
	for range 3 {
		c, victim := endless(t)
		r, err := Start(c, "victim", once(run.Limit{}))
		require.NoError(t, err)
		late, latePid := endless(t)
		after, err := Start(late, "started later", once(run.Limit{}))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return pid() != 0 && victim() != 0 && latePid() != 0 }, time.Minute, 10*time.Millisecond)
		require.NoError(t, syscall.Kill(r.Pid(), syscall.SIGKILL))
		assert.Contains(t, told(t, r), run.Gone)
		assert.True(t, dead(victim()), "the command of the guardian that was killed runs on")
		assert.False(t, dead(pid()) || dead(latePid()), "another guardian's command was killed")
		after.End(0)
		told(t, after)
	}
	spared.End(0)
	told(t, spared)
	assert.True(t, dead(pid()))
}
