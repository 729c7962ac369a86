//go:build linux || darwin

package main_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/turnwise/turnwise/verify/servers"
)

// program is the folder of the program as users have it, and of the commands that tests run.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil { // nearly all tests just wait
		panic(err)
	}
	dir, err := os.MkdirTemp("", "turnwise")
	if err == nil {
		build := exec.Command("go", "build", "-trimpath", "-o", dir, ".", "./testdata/writer")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		build.Stderr = os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = dir
	code := servers.Main(m)
	os.RemoveAll(dir)
	os.Exit(code)
}

// named is a service that tests run on, with a short TTL. Each test has a part of its own.
type named struct {
	name string
	at   func(t *testing.T) string
}

// services are those that every script runs on.
var services = []named{
	{"file", func(t *testing.T) string { return "file://" + t.TempDir() + "/locks" }},
	{"etcd", func(t *testing.T) string {
		return "etcd://" + servers.Etcd(t, servers.Shared()).Addrs()[0] + "/" + unique(t) + "?session=4s"
	}},
	{"zk", func(t *testing.T) string {
		return "zk://" + servers.ZooKeeper(t, servers.Shared()).Addrs()[0] + "/" + unique(t) + "?session=4s"
	}},
	{"redis", func(t *testing.T) string {
		return "redis://" + servers.Redis(t, servers.Shared()).Addrs()[0] + "?session=4s&longest-session=4s&root=" + unique(t)
	}},
}

// others are services that only long campaigns also run on.
var others = []named{
	{"postgres", func(t *testing.T) string {
		return servers.Postgres(t, servers.Shared(), servers.Config("max_connections = 500")).URL() + "&session=4s&table=" + moment()
	}},
	{"mysql", func(t *testing.T) string {
		return servers.MariaDB(t, servers.Shared(), servers.Config("max_connections=500")).URL() + "?session=4s&table=" + moment()
	}},
	{"memcached", func(t *testing.T) string {
		return "memcached://" + servers.Memcached(t, servers.Shared(), servers.Flags("-M")).Addrs()[0] + "?session=4s&longest-session=4s&root=" + moment()
	}},
	{"nats", func(t *testing.T) string {
		return "nats://" + servers.NATS(t, servers.Shared()).Addrs()[0] + "?session=4s&longest-session=4s&root=" + moment()
	}},
}

func moment() string { return "t" + strconv.FormatInt(time.Now().UnixNano(), 36) }

func unique(t *testing.T) string {
	return strings.NewReplacer("/", "-").Replace(t.Name()) + moment()
}

func TestScripts(t *testing.T) {
	t.Parallel()
	for _, s := range services {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			scripts(t, "testdata", s.name, s.at(t))
		})
	}
}

func scripts(t *testing.T, dir, service, url string) {
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			e.Setenv("HOME", home)
			e.Defer(func() { awaitAllOf(e.WorkDir) })
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(e.WorkDir, "config"))
			e.Setenv("PATH", program+":"+os.Getenv("PATH"))
			// A script's lines are its own: scripts of one service run side by side, and what one has made may be closed to others.
			own := url + "-" + filepath.Base(e.WorkDir)
			if before, query, ok := strings.Cut(url, "?"); ok && service != "redis" {
				own = before + "-" + filepath.Base(e.WorkDir) + "?" + query
			}
			// No script waits for the end of a TTL, and on a busy machine a service may be silent for seconds.
			e.Setenv("TURNWISE_BACKEND", strings.ReplaceAll(own, "session=4s", "session=12s"))
			e.Setenv("SHELL", "/bin/sh")
			return os.WriteFile(filepath.Join(e.WorkDir, "lib.sh"), []byte(lib), 0o600)
		},
		Condition: func(cond string) (bool, error) { return cond == service || cond == "ttl" && service != "file", nil },
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":  exits,
			"script": script,
		},
		RequireExplicitExec: true,
	})
}

// awaitAllOf waits until all have ended that a script has started: what lives on, such as a completion that nobody waits for, would
// make folders again while they are removed. What a script that has failed leaves behind may never end by itself.
func awaitAllOf(folder string) {
	for tries := range 400 {
		alive := false
		environments, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, path := range environments {
			environment, _ := os.ReadFile(path) // none of one that has ended
			if !bytes.Contains(environment, []byte(folder)) {
				continue
			}
			alive = true
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && tries >= 200 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if !alive {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// exits CODE PROGRAM ARGUMENT... demands that exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGUMENT...")
	}
	code := 0
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("the exit code is %d, not %s", code, args[0])
	}
}

// lib is what each script for the shell begins with. A shell lets what it starts in the background ignore INT and QUIT.
const lib = `
trap 'jobs -p >jobs.left; kill -KILL $(cat jobs.left) 2>/dev/null' EXIT
trap 'exit 1' TERM
attentive='env --default-signal=INT,QUIT'
until_there() {
	for i in $(seq 1000); do "$@" >/dev/null 2>&1 && return; sleep 0.05; done
	echo "never: $*" >&2
	exit 1
}
`

// sayingWhere has a script say in which of its lines it gives up.
func sayingWhere(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(line, " exit 1", fmt.Sprintf(" { echo it gives up in line %d >&2; exit 1; }", i+1))
	}
	return strings.Join(lines, "")
}

// script NAME runs a script for the shell, which must succeed.
func script(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: script NAME")
	}
	text := ts.ReadFile("lib.sh") + sayingWhere(ts.ReadFile(args[0]))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
	// What a script that fails leaves behind may hold its output open for ever, so nobody waits for the end of that.
	const apart = `timeout -k 5 900 sh "$0" >script.log 2>&1 </dev/null; code=$?; cat script.log; exit $code`
	if err := ts.Exec("sh", "-c", apart, args[0]); err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
}
