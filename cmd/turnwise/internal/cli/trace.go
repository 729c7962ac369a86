//go:build linux || darwin

package cli

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/trace"
)

// traceTo returns the observer that writes what happens at a service to the file path; nil: there is no path.
func traceTo(path string, at *backend.Service) (*coord.Observer, error) {
	if path == "" {
		return nil, nil
	}
	// Nobody waits for somebody to read, if it is a pipe: signals are caught already.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND|unix.O_NONBLOCK, 0o644)
	if errors.Is(err, unix.ENXIO) {
		err = fmt.Errorf("%w: it is a pipe from which nobody reads", err)
	}
	if err != nil {
		return nil, &failure{codeUnusable, err}
	}
	return trace.To(&traceFile{f: f}, serviceName(at)), nil
}

// traceFile says once that something is missing from the trace.
type traceFile struct {
	f    *os.File
	told sync.Once
}

func (t *traceFile) Write(b []byte) (int, error) {
	n, err := t.f.Write(b)
	if err != nil {
		t.told.Do(func() { fmt.Fprintln(os.Stderr, text(fmt.Errorf("--trace: the trace is not complete: %w", err))) })
	}
	return n, err
}

// serviceName is the URL reduced to what says which lines are meant. For a directory it adds the machine.
func serviceName(at *backend.Service) string {
	name := at.String()
	if u, err := url.Parse(name); err == nil {
		q := u.Query()
		q.Del("session")
		u.RawQuery = q.Encode()
		name = u.String()
	}
	if at.Scheme() != "file" {
		return name
	}
	if name == "file:" || name == "file://" {
		name = "file://" + at.Directory()
	}
	host, _ := os.Hostname()
	return name + " on " + host
}
