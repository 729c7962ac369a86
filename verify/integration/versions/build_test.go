//go:build linux

package versions

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnwise/turnwise/verify/servers"
)

// pinned is the older version: until there is a release, the oldest commit of main that has all that the worker uses. The formats that
// it writes are those of today. Once there is a tag, put the newest one here, and leave it there until a format has to change: then
// say in docs/operating.md which versions can no longer run side by side.
const pinned = "62715fbe039ff6f225f2340b40af3f073f24167d" // November 27, 2026, with asks, barriers and memos

var pin = flag.String("versions.pin", pinned, "the older commit")

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() != "1" {
		_ = f.Value.Set("2") // on each service there are five busy processes beside its servers
	}
	os.Exit(servers.Main(m))
}

// build makes the worker of both versions, or skips the test where there is no history to take the older one from.
func build(t *testing.T) (older, today string) {
	t.Helper()
	dir := t.TempDir()
	if out, err := run("", "git", "rev-parse", "--is-shallow-repository"); err != nil || strings.TrimSpace(out) != "false" {
		t.Skipf("versions: this clone has no history, so there is no older version to run beside today's (%s)", strings.TrimSpace(out))
	}
	root := filepath.Join(dir, "older")
	must(t, "", "mkdir", root)
	top := strings.TrimSpace(must(t, "", "git", "rev-parse", "--show-toplevel"))
	must(t, top, "git", "archive", "-o", filepath.Join(dir, "older.tar"), *pin) // fails if the pin is no commit of this history
	must(t, root, "tar", "xf", filepath.Join(dir, "older.tar"))
	must(t, "", "cp", "-r", "worker", filepath.Join(root, "backend", "worker"))
	older, today = filepath.Join(dir, "older-worker"), filepath.Join(dir, "todays-worker")
	must(t, filepath.Join(root, "backend"), "go", "build", "-trimpath", "-o", older, "./worker")
	must(t, "", "go", "build", "-trimpath", "-o", today, "./worker")
	return older, today
}

func must(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	out, err := run(dir, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// run runs a program that needs no network.
func run(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
