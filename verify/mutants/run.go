package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// errNone says that a mutant does not compile.
var errNone = errors.New("it does not compile")

// noticed runs a target's tests with a mutant until one fails. The zero mutant is the code as it is.
func noticed(ctx context.Context, root string, t target, m mutant) (by string, err error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	changed := filepath.Join(dir, "mutant.go")
	if err := os.WriteFile(changed, m.text, 0o600); err != nil {
		return "", err
	}
	replace := map[string]string{}
	if m.file != "" {
		replace[filepath.Join(root, m.file)] = changed
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	flags := strings.TrimSpace(os.Getenv("GOFLAGS") + " '-overlay=" + overlay + "'")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return "", err
	}
	suites, err := t.tried(root, m.folder(t.module))
	if err != nil {
		return "", err
	}
	for _, s := range suites {
		binary := filepath.Join(dir, "tests")
		build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-o", binary, "./"+s.folder)
		build.Dir = filepath.Join(root, t.module)
		build.Env = append(os.Environ(), "GOFLAGS="+flags)
		if out, err := build.CombinedOutput(); ctx.Err() != nil {
			return "", ctx.Err()
		} else if err != nil && strings.Contains(string(out), filepath.Base(changed)) {
			return "", errNone
		} else if err != nil {
			return "", errors.New(string(out))
		}
		by, err := surely(func(args ...string) (string, error) {
			return run(ctx, binary, filepath.Join(root, t.module, s.folder), flags, s.with(args...), t.patience)
		})
		if by != "" || err != nil {
			return by, err
		}
	}
	return "", nil
}

// surely runs a test that has failed once more, by itself: on a busy machine a test may fail whatever the mutant. Unless it
// fails again, the other tests decide.
func surely(tests func(args ...string) (failed string, err error)) (failed string, err error) {
	var doubtful []string
	for {
		var without []string
		if len(doubtful) > 0 {
			without = []string{"-test.skip=^(" + strings.Join(doubtful, "|") + ")$"}
		}
		failed, err := tests(without...)
		if err != nil || !strings.HasPrefix(failed, "Test") {
			return failed, err
		}
		if again, err := tests("-test.run=^" + failed + "$"); again != "" || err != nil {
			return failed, err
		}
		doubtful = append(doubtful, failed)
	}
}

// run runs a test binary, and ends it when the first test has failed. Programs that the tests build have the mutant, too, since
// the flags are those of the go command.
func run(ctx context.Context, binary, dir, flags string, args []string, patience time.Duration) (failed string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append([]string{"-test.v", "-test.failfast"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TURNWISE_REQUIRE_SERVERS=1", "GOFLAGS="+flags)
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	cmd.WaitDelay = 5 * time.Second // what the tests have started may outlive them, and keep the pipe
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		_ = in.Close()
		ended <- err
	}()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if name, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "--- FAIL: "); ok && failed == "" {
			failed, _, _ = strings.Cut(name, " (")
			cancel()
		}
	}
	_, _ = io.Copy(io.Discard, out)
	switch err := <-ended; {
	case failed != "" || err == nil:
		return failed, nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "it takes too long", nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	default: // it panicked, or a leak was found
		return "the tests end with an error", nil
	}
}
