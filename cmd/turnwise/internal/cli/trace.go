//go:build linux || darwin

package cli

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/people"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/trace"
)

// traceTo returns the observer that writes what happens at a service to the file path; nil: there is no path.
func traceTo(path string, at *backend.Service) (*coord.Observer, error) {
	if path == "" {
		return nil, nil
	}
	f, err := openTrace(path)
	if errors.Is(err, unix.ENXIO) {
		err = fmt.Errorf("%w: it is a pipe from which nobody reads", err)
	}
	if err != nil {
		return nil, &failure{codeUnusable, err}
	}
	return trace.To(&traceFile{f: f}, serviceName(at)), nil
}

// openTrace opens the file path for appending. In a directory such as /tmp somebody else may have put a link there, which would have
// us write to any file of ours, or a file of his own, in which he can have the trace say what he likes.
func openTrace(path string) (*os.File, error) {
	// Nobody waits for somebody to read, if it is a pipe: signals are caught already.
	const flags = os.O_CREATE | os.O_WRONLY | os.O_APPEND | unix.O_NONBLOCK
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW, 0o644)
	var link unix.Stat_t
	if err != nil && unix.Lstat(path, &link) == nil && link.Mode&unix.S_IFMT == unix.S_IFLNK {
		if isStrangers(&link) {
			return nil, fmt.Errorf("--trace %s: it is a symbolic link that user %d has made: name the file itself", coord.Printable(path), link.Uid)
		}
		f, err = os.OpenFile(path, flags, 0o644)
	}
	if err != nil {
		return nil, err
	}
	var st, in unix.Stat_t
	err = errors.Join(unix.Fstat(int(f.Fd()), &st), unix.Stat(filepath.Dir(path), &in))
	if err == nil && in.Mode&0o002 != 0 && (isStrangers(&st) || st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink > 1) {
		err = errors.New("everybody may write to its directory, and it is a link, or another user's: take another")
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("--trace %s: %w", coord.Printable(path), err)
	}
	return f, nil
}

// isStrangers reports whether somebody has made a file who is neither this user nor root.
func isStrangers(st *unix.Stat_t) bool { return st.Uid != 0 && int(st.Uid) != os.Geteuid() }

// traceFile says once that something is missing from the trace.
type traceFile struct {
	f    *os.File
	told sync.Once
}

func (t *traceFile) Write(b []byte) (int, error) {
	n, err := t.f.Write(b)
	if err != nil {
		t.told.Do(func() { fmt.Fprintln(people.Err, text(fmt.Errorf("--trace: the trace is not complete: %w", err))) })
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
