package examples_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnwise/turnwise/verify/servers"
)

// The examples are run as a reader would run them: as programs, on every service.

var bin string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "turnwise-examples")
	if err != nil {
		panic(err)
	}
	bin = dir
	for _, name := range []string{"mutex", "rwlock", "semaphore", "multi", "once", "election", "guard", "sharedfile", "tour"} {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, name), "./"+name)
		if out, err := build.CombinedOutput(); err != nil {
			panic(string(out))
		}
	}
	code := servers.Main(m)
	os.RemoveAll(dir)
	os.Exit(code)
}

// onEveryService calls f with the URL of each service.
func onEveryService(t *testing.T, f func(t *testing.T, url string)) {
	t.Run("file", func(t *testing.T) { f(t, "file://"+t.TempDir()) })
	t.Run("zk", func(t *testing.T) {
		f(t, "zk://"+strings.Join(servers.ZooKeeper(t, servers.Shared()).Addrs(), ",")+"/some/root")
	})
	t.Run("etcd", func(t *testing.T) {
		f(t, "etcd://"+strings.Join(servers.Etcd(t, servers.Shared()).Addrs(), ","))
	})
}

func run(t *testing.T, program string, args ...string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(bin, program), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func TestMutexTakesTurns(t *testing.T) {
	onEveryService(t, func(t *testing.T, url string) {
		lines := run(t, "mutex", url)
		if len(lines) != 18 {
			t.Fatalf("%d lines, want 18:\n%s", len(lines), strings.Join(lines, "\n"))
		}
		for i := 0; i < len(lines); i += 2 {
			who, _, _ := strings.Cut(lines[i], " ")
			if !strings.Contains(lines[i], "is inside") || lines[i+1] != who+" leaves" {
				t.Fatalf("two inside:\n%s", strings.Join(lines, "\n"))
			}
		}
	})
}

// Nothing was lost on the way, and nobody waited for ever for an account that somebody had who waited for his.
func TestMultiMovesMoney(t *testing.T) {
	onEveryService(t, func(t *testing.T, url string) {
		if lines := run(t, "multi", url); !slices.Equal(lines, []string{"map[anna:105 bert:95 carl:100]"}) {
			t.Fatal(lines)
		}
	})
}

// No second is there twice.
func TestOnceRunsAJobOnceInASlot(t *testing.T) {
	onEveryService(t, func(t *testing.T, url string) {
		lines := run(t, "once", url)
		seen := make(map[string]bool)
		for _, line := range lines {
			second, _, ok := strings.Cut(strings.TrimPrefix(line, "second "), ":")
			if !ok || seen[second] {
				t.Errorf("%q, in:\n%s", line, strings.Join(lines, "\n"))
			}
			seen[second] = true
		}
		if len(seen) < 2 {
			t.Error(lines)
		}
	})
}

func TestRWLockShowsWhatWasWritten(t *testing.T) {
	onEveryService(t, func(t *testing.T, url string) {
		lines := run(t, "rwlock", url)
		wrote, read := 0, 0
		for _, line := range lines {
			switch {
			case strings.HasPrefix(line, "wrote version "):
				wrote++
			case strings.HasPrefix(line, "read "):
				read++
			default:
				t.Errorf("unexpected: %s", line)
			}
		}
		if wrote != 2 || read != 5 {
			t.Errorf("%d written, %d read:\n%s", wrote, read, strings.Join(lines, "\n"))
		}
	})
}

func TestSemaphoreNeverGivesMoreThanThereIs(t *testing.T) {
	onEveryService(t, func(t *testing.T, url string) {
		lines := run(t, "semaphore", url)
		if len(lines) != 6 {
			t.Fatalf("%d jobs, want 6:\n%s", len(lines), strings.Join(lines, "\n"))
		}
		for _, line := range lines {
			if !strings.HasSuffix(line, "1 of 3") && !strings.HasSuffix(line, "2 of 3") && !strings.HasSuffix(line, "3 of 3") {
				t.Errorf("too many: %s", line)
			}
		}
	})
}

func TestGuardRefusesAStaleHolder(t *testing.T) {
	onEveryService(t, func(t *testing.T, url string) {
		if strings.HasPrefix(url, "file") {
			t.Skip("there are no data to guard")
		}
		url, _, _ = strings.Cut(url, "/some")
		got := run(t, "guard", url)
		want := []string{
			"the holder writes: done",
			"the next one writes: done",
			"the first one wakes up and writes: refused: the lock is another's by now",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s", strings.Join(got, "\n"))
		}
	})
}

func TestASharedFileIsNotWrittenByAStaleHolder(t *testing.T) {
	onEveryService(t, func(t *testing.T, url string) {
		url, _, _ = strings.Cut(url, "/some")
		got := run(t, "sharedfile", url)
		if len(got) != 8 {
			t.Fatalf("%d lines, want 8:\n%s", len(got), strings.Join(got, "\n"))
		}
		for i, want := range []string{"gets 9 lines", "gets 9 lines", `gets 10 lines; the last is "10 eve"`, `gets 10 lines; the last is "10 eve"`} {
			if !strings.Contains(got[2*i+1], want) {
				t.Errorf("%q, want %q", got[2*i+1], want)
			}
		}
		if !strings.HasPrefix(got[6], "dan goes on: refused") && !strings.HasPrefix(got[6], "dan goes on: given up") {
			t.Errorf("the stopped writer: %s", got[6])
		}
	})
}

func TestTheTourKeepsItsWord(t *testing.T) {
	got := strings.Join(run(t, "tour"), "\n")
	for _, want := range []string{
		"anna leads", "anna is killed with -9. bert leads", "They have written 40 versions.", " 0 saw something", "You ask who waits for whom.", "finn, process ", "waits for finn.",
		"gina writes on, to version 60", "finn goes on: refused", "Everybody reads version 60, whole.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
}

func TestElectionHandsOverOnSIGTERM(t *testing.T) {
	for _, url := range []func(t *testing.T) string{
		func(t *testing.T) string { return "zk://" + servers.ZooKeeper(t, servers.Shared()).Addrs()[0] },
		func(t *testing.T) string { return "etcd://" + servers.Etcd(t, servers.Shared()).Addrs()[0] },
	} {
		url := url(t)
		t.Run(url[:4], func(t *testing.T) {
			first := startService(t, url)
			first.waitFor("leading")
			second := startService(t, url)
			if got := second.get("/leader"); got != first.address {
				t.Fatalf("the leader is %q, want %q", got, first.address)
			}
			if second.get("/healthz") != "ok" {
				t.Fatal("not healthy")
			}
			first.cmd.Process.Signal(syscall.SIGTERM)
			first.waitFor("no longer leading")
			second.waitFor("leading")
			if err := first.cmd.Wait(); err != nil {
				t.Errorf("it did not end well: %v", err)
			}
			if got := second.get("/leader"); got != second.address {
				t.Errorf("the leader is %q, want %q", got, second.address)
			}
		})
	}
}

// service is a running election example.
type service struct {
	t       *testing.T
	cmd     *exec.Cmd
	lines   chan string
	address string
}

func startService(t *testing.T, url string) *service {
	t.Helper()
	s := &service{t: t, cmd: exec.Command(filepath.Join(bin, "election"), url), lines: make(chan string, 100)}
	out, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.cmd.Process.Kill(); s.cmd.Wait() })
	go func() {
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			s.lines <- scanner.Text()
		}
		close(s.lines)
	}()
	_, s.address, _ = strings.Cut(s.waitFor("listening on"), "http://")
	return s
}

func (s *service) waitFor(what string) string {
	s.t.Helper()
	for limit := time.After(30 * time.Second); ; {
		select {
		case line, ok := <-s.lines:
			if !ok {
				s.t.Fatalf("it ended and never said %q", what)
			}
			if strings.Contains(line, what) {
				return line
			}
		case <-limit:
			s.t.Fatalf("it never said %q", what)
		}
	}
}

func (s *service) get(path string) string {
	s.t.Helper()
	reply, err := http.Get("http://" + s.address + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(body))
}
