//go:build linux

package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// shell is an interactive shell on a terminal of its own.
type shell struct {
	t    *testing.T
	tty  *os.File
	dir  string
	cmd  *exec.Cmd
	mu   sync.Mutex
	said strings.Builder
	n    int // of echoes
}

// shells returns the shells that are here, with flags by which they read no files of the user's.
func shells() map[string][]string {
	all := map[string][]string{
		"bash": {"bash", "--norc", "--noprofile", "-i"}, "dash": {"dash", "-i"}, "zsh": {"zsh", "-f", "-i"},
	}
	for name := range all {
		if _, err := exec.LookPath(name); err != nil {
			delete(all, name)
		}
	}
	return all
}

func onTerminals(t *testing.T, f func(s *shell)) {
	all := shells()
	require.NotEmpty(t, all)
	for name, args := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(login(t, args))
		})
	}
}

func login(t *testing.T, args []string) *shell {
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	var number int
	raw, err := ptmx.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
		if err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}))
	require.NoError(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	s := &shell{t: t, tty: ptmx, dir: t.TempDir(), cmd: exec.Command(args[0], args[1:]...)}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr, s.cmd.Dir = tty, tty, tty, s.dir
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	s.cmd.Env = []string{"PATH=" + program + ":" + os.Getenv("PATH"), "HOME=" + s.dir, "TERM=dumb", "PS1=", "SHELL=/bin/sh",
		"TURNWISE_BACKEND=file://" + s.dir + "/locks"}
	require.NoError(t, s.cmd.Start())
	tty.Close()
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := ptmx.Read(buf)
			s.mu.Lock()
			s.said.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGHUP)
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		ptmx.Close()
		if t.Failed() {
			s.mu.Lock()
			t.Logf("on the terminal: %q", s.said.String())
			s.mu.Unlock()
		}
	})
	s.answers()
	return s
}

func (s *shell) types(text string) {
	s.t.Helper()
	_, err := s.tty.WriteString(text)
	require.NoError(s.t, err)
}

// makes waits for a file.
func (s *shell) makes(name string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { _, err := os.Stat(filepath.Join(s.dir, name)); return err == nil }, 20*time.Second, 10*time.Millisecond, "%s", name)
}

func (s *shell) reads(name string) string {
	s.t.Helper()
	s.makes(name)
	var text []byte
	require.Eventually(s.t, func() bool {
		text, _ = os.ReadFile(filepath.Join(s.dir, name))
		return len(text) > 0
	}, 20*time.Second, 10*time.Millisecond, "%s", name)
	return strings.TrimSpace(string(text))
}

// answers demands that the shell reads what is typed. What is typed while a program ends may be thrown away.
func (s *shell) answers() {
	s.t.Helper()
	s.n++
	name := fmt.Sprintf("answer%d", s.n)
	require.Eventually(s.t, func() bool {
		s.types("\necho >" + name + "\n")
		time.Sleep(200 * time.Millisecond)
		_, err := os.Stat(filepath.Join(s.dir, name))
		return err == nil
	}, 20*time.Second, time.Second, "%s", name)
}

// shows waits until one of some texts is on the terminal.
func (s *shell) shows(some ...string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.ContainsFunc(some, func(text string) bool { return strings.Contains(s.said.String(), text) })
	}, 20*time.Second, 10*time.Millisecond)
}

// isStopped waits until a process is stopped by a signal.
func (s *shell) isStopped(pid string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		text, _ := os.ReadFile("/proc/" + pid + "/status")
		return strings.Contains(string(text), "State:\tT")
	}, 20*time.Second, 10*time.Millisecond)
}

// A command that ends in the background does not take the terminal away from the shell.
func TestACommandThatEndsInTheBackgroundLeavesTheTerminalAlone(t *testing.T) {
	t.Parallel()
	onTerminals(t, func(s *shell) {
		require.NoError(s.t, unix.Mkfifo(filepath.Join(s.dir, "go"), 0o600))
		s.types("turnwise lock a -- sh -c 'echo $$ >pid; read x <go; echo >ended'\n") // it starts nothing: see terminal.txtar
		pid := s.reads("pid")
		s.types("\x1a")
		s.isStopped(pid)
		s.answers()
		s.types("bg\n")
		s.answers()
		s.types("echo >go\n")
		s.makes("ended")
		for range 3 {
			time.Sleep(100 * time.Millisecond)
			s.answers()
		}
	})
}

// A command that reads from the terminal gets it also within a pipe, or when it comes to the foreground later.
func TestACommandThatWantsTheTerminalGetsIt(t *testing.T) {
	t.Parallel()
	t.Run("in a pipe", func(t *testing.T) {
		onTerminals(t, func(s *shell) {
			s.types("turnwise lock a -- sh -c 'echo >asks; read x </dev/tty; echo got $x' | cat >got\n")
			s.makes("asks")
			time.Sleep(200 * time.Millisecond)
			s.types("hello\n")
			assert.Equal(s.t, "got hello", s.reads("got"))
			s.answers()
		})
	})
	t.Run("interrupted", func(t *testing.T) {
		onTerminals(t, func(s *shell) {
			s.types("turnwise lock a -- sh -c 'echo >asks; read x </dev/tty' | cat\n")
			s.makes("asks")
			time.Sleep(200 * time.Millisecond)
			s.types("\x03")
			s.answers()
			s.types("turnwise lock -w 10 a -- touch free\n")
			s.makes("free")
		})
	})
	t.Run("in the background, then fg", func(t *testing.T) {
		onTerminals(t, func(s *shell) {
			s.types("turnwise lock a -- sh -c 'echo $$ >pid; read x </dev/tty; echo got $x >got' &\n")
			s.isStopped(s.reads("pid"))
			s.answers()
			s.types("fg\n")
			time.Sleep(300 * time.Millisecond)
			s.types("hello\n")
			assert.Equal(s.t, "got hello", s.reads("got"))
			s.answers()
		})
	})
}

// A script around ends with the command that Ctrl-C has ended, wherever its output goes.
func TestCtrlCEndsTheScriptAround(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]string{"terminal": "", "file": ">log", "pipe": "| cat", "nothing to read": "</dev/null"} {
		t.Run(name, func(t *testing.T) {
			onTerminals(t, func(s *shell) {
				script := "turnwise lock a -- sh -c 'echo >ready; exec sleep 1000' " + to + "\necho >beyond\n"
				require.NoError(s.t, os.WriteFile(filepath.Join(s.dir, "script"), []byte(script), 0o600))
				s.types("bash script\n")
				s.makes("ready")
				time.Sleep(100 * time.Millisecond)
				s.types("\x03")
				s.answers()
				assert.NoFileExists(s.t, filepath.Join(s.dir, "beyond"))
			})
		})
	}
}

// The page for terminals stops on Ctrl-Z as any program does, and goes on.
func TestTopStops(t *testing.T) {
	t.Parallel()
	onTerminals(t, func(s *shell) {
		s.types("TERM=vt100 turnwise top\n")
		s.shows(s.dir + "/locks")
		s.types("\x1a")
		s.shows("topped", "uspended") // bash and dash say the one, zsh the other
		s.answers()
		s.types("fg\n")
		time.Sleep(300 * time.Millisecond)
		s.types("q")
		s.answers()
	})
}

// What goes to a file is written line by line, though somebody types on a terminal.
func TestTopInAFileIsNotDrawn(t *testing.T) {
	t.Parallel()
	onTerminals(t, func(s *shell) {
		s.types("turnwise lock a -- sh -c 'echo >holds; until test -e enough; do sleep 0.05; done' &\n")
		s.makes("holds")
		s.types("TERM=vt100 turnwise top >log 2>&1 & echo $! >pid\n")
		pid := s.reads("pid")
		assert.Regexp(s.t, `^[^\x1b]*\ba\b[^\x1b]*$`, s.reads("log"))
		s.types("kill " + pid + "; echo >enough; wait; echo >over\n")
		s.makes("over")
	})
}
