package planted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Notice is how a bug came to light: the test that failed, and what it said.
type Notice struct{ Test, Says string }

// ErrUnnoticed says that all tests passed despite the bug.
var ErrUnnoticed = errors.New("NOT noticed")

// Hunt builds the tests with the bug, in a process of their own, and runs them. Only a test that fails counts as a
// notice. An error may say that none did (ErrUnnoticed), but also that the tests do not compile, that something
// panicked, or that no test ran.
func (b Bug) Hunt(root string) (Notice, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return Notice{}, err
	}
	dir, err := os.MkdirTemp("", "planted")
	if err != nil {
		return Notice{}, err
	}
	defer os.RemoveAll(dir)
	overlay, err := b.overlay(root, dir)
	if err != nil {
		return Notice{}, err
	}
	out, err := b.By.output(root, "-overlay="+overlay, "-failfast")
	if err != nil {
		return Notice{}, err
	}
	return b.By.read(out)
}

// Suspects are all the tests that notice a bug in a package. Without a bug they must pass, or it is not the bug that they
// notice.
type Suspects []Tests

// Acquit runs the tests together, without a bug, and returns an error unless they pass.
func (all Suspects) Acquit(root string) error {
	together, runs := all[0], []string(nil)
	for _, by := range all {
		runs = append(runs, by.Run)
	}
	together.Run = strings.Join(runs, "|")
	out, err := together.output(root)
	if err != nil {
		return err
	}
	var errs []error
	for _, by := range all {
		if n, err := by.read(out); !errors.Is(err, ErrUnnoticed) {
			if err == nil {
				err = fmt.Errorf("%s: %s", n.Test, n.Says)
			}
			errs = append(errs, fmt.Errorf("%s: %w", by.Run, err))
		}
	}
	return errors.Join(errs...)
}

// output runs the tests, and returns what they say.
func (by Tests) output(root string, flags ...string) ([]byte, error) {
	args := append([]string{"test", "-json", "-vet=off", "-count=1", "-timeout=15m", "-run=" + by.Run}, flags...)
	cmd := exec.Command("go", append(append(args, by.Package), by.Args...)...)
	cmd.Dir = filepath.Join(root, by.Module)
	cmd.Env = append(os.Environ(), "TURNWISE_REQUIRE_SERVERS=1", "TURNWISE_PATIENCE=4s")
	for _, f := range flags {
		if strings.HasPrefix(f, "-overlay=") { // programs that tests build have the bug as well
			cmd.Env = append(cmd.Env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" "+f))
		}
	}
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		err = nil
	}
	return out, err
}

// picks reports whether a test is one of these, or a subtest of one.
func (by Tests) picks(test string) bool {
	names, patterns := strings.Split(test, "/"), strings.Split(by.Run, "/")
	if len(names) < len(patterns) {
		return false
	}
	for i, p := range patterns {
		if ok, err := regexp.MatchString(p, names[i]); !ok || err != nil {
			return false
		}
	}
	return true
}

// event is a line of `go test -json`, or of the build before it.
type event struct{ Action, Test, Output, FailedBuild string }

// message matches what t.Error writes, or testify below it; what a driver logs has no file and line before it.
var message = regexp.MustCompile(`^\s+(?:\w+\.go:\d+:|Error:)\s+(\S.*)`)

func (by Tests) read(out []byte) (Notice, error) {
	var first Notice
	var all strings.Builder
	says, ran, broken := make(map[string]string), 0, false
	lines := json.NewDecoder(bytes.NewReader(out))
	for {
		var e event
		if err := lines.Decode(&e); err == io.EOF {
			break
		} else if err != nil {
			return Notice{}, fmt.Errorf("go test: %w:\n%s", err, out)
		}
		all.WriteString(e.Output)
		deep := by.picks(e.Test)
		switch {
		case strings.HasPrefix(e.Output, "panic: "), e.FailedBuild != "":
			broken = true
		case deep && e.Action == "output":
			if m := message.FindStringSubmatch(e.Output); m != nil && says[e.Test] == "" && !strings.HasPrefix(m[1], "servers: ") {
				says[e.Test] = m[1]
			}
		case deep && e.Action == "pass":
			ran++
		case deep && e.Action == "fail" && first.Test == "":
			first.Test = e.Test
		}
	}
	first.Says = says[first.Test]
	switch {
	case broken, first.Test == "" && ran == 0: // this also covers tests skipped because a server is missing
		return Notice{}, fmt.Errorf("the tests did not run as they should:\n%s", all.String())
	case first.Test == "":
		return Notice{}, ErrUnnoticed
	}
	return first, nil
}
