//go:build !linux && !darwin

package cli

import (
	"io"
	"net"
	"os"
	"strings"
	"testing"
)

// said runs the program, and returns what it prints and its exit code.
func said(t *testing.T, args ...string) (string, int) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan string)
	go func() {
		all, _ := io.ReadAll(r)
		out <- string(all)
	}()
	oldOut, oldErr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = w, w
	code := Main(append([]string{"turnwise"}, args...))
	os.Stdout, os.Stderr = oldOut, oldErr
	w.Close()
	return <-out, code
}

// What cannot work here says so in one line, whatever else it is given.
func TestWhatNeedsAnotherSystemSaysSo(t *testing.T) {
	for _, args := range [][]string{
		{"lock", "-n", "a", "--", "true"}, {"sem", "--permits", "3", "a", "--", "true"}, {"elect", "a", "--", "true"}, {"once", "a", "--", "true"}, {"cron", "@daily", "a", "--", "true"}, {"shards", "--count", "3", "a", "--", "true"},
		{"hold", "a"}, {"release", "a"}, {"publish", "file", "a"}, {"serve", "--socket", "here"},
	} {
		out, code := said(t, args...)
		if code != codeUnusable || strings.Count(out, "\n") != 1 || !strings.Contains(out, "it needs Linux or macOS") {
			t.Errorf("%v: %d: %s", args, code, out)
		}
	}
	if out, code := said(t, "ls", "-b", "file://"); code == 0 || !strings.Contains(out, "Linux or macOS") {
		t.Errorf("a directory: %d: %s", code, out)
	}
}

// What only looks, works.
func TestWhatLooksWorks(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close() // nobody is there now
	if out, code := said(t, "ls", "-b", "redis://"+address); code != codeUnreachable || strings.Contains(out, "Linux or macOS") {
		t.Errorf("ls: %d: %s", code, out)
	}
	if out, code := said(t, "--version"); code != 0 || !strings.HasPrefix(out, "turnwise version ") {
		t.Errorf("--version: %d: %s", code, out)
	}
	if out, code := said(t, "completion", "bash"); code != 0 || !strings.Contains(out, "complete -o") {
		t.Errorf("completion: %d: %s", code, out)
	}
}
