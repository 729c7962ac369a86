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
	args := []string{"test", "-json", "-overlay=" + overlay, "-vet=off", "-count=1", "-failfast", "-timeout=3m", "-run=" + b.By.Run, b.By.Package}
	cmd := exec.Command("go", append(args, b.By.Args...)...)
	cmd.Dir = filepath.Join(root, b.By.Module)
	cmd.Env = append(os.Environ(), "TURNWISE_REQUIRE_SERVERS=1")
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		return Notice{}, err
	}
	return b.By.read(out)
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
		deep := e.Test != "" && strings.Count(e.Test, "/") >= strings.Count(by.Run, "/")
		switch {
		case strings.HasPrefix(e.Output, "panic: "), e.FailedBuild != "":
			broken = true
		case deep && e.Action == "output":
			if m := message.FindStringSubmatch(e.Output); m != nil && says[e.Test] == "" {
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
