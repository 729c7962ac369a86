//go:build linux || darwin

package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/coord"
)

// neededFiles is how many files a command may have to open, with a guardian.
const neededFiles = 24

// enoughFiles refuses to begin where so few files may be open that it would wait for them later, in the middle.
func enoughFiles() error {
	var open []int
	defer func() {
		for _, fd := range open {
			unix.Close(fd)
		}
	}()
	for range neededFiles {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == unix.EMFILE || err == unix.ENFILE {
			return fmt.Errorf("only %d more files can be opened, and turnwise needs up to %d: raise the limit (ulimit -n): %w", len(open), neededFiles, err)
		}
		if err == nil {
			open = append(open, fd)
		}
	}
	return nil
}

// openConfiguration opens the configuration, if it is this user's or root's. HOME may be that of somebody else, as under a sudo that
// keeps it, and who writes the configuration says where this user's locks are, and which of his files is sent there as a password.
func openConfiguration(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe keeps nobody waiting
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	switch err = unix.Fstat(int(f.Fd()), &st); {
	case err != nil:
	case uint32(st.Mode)&unix.S_IFMT != unix.S_IFREG: //nolint:unconvert // Mode is 16 bits on macOS
		err = errors.New("it is no plain file")
	case isStrangers(&st):
		err = fmt.Errorf("it belongs to user %d, who could have your files sent anywhere: chown it, or set HOME or XDG_CONFIG_HOME to what is yours", st.Uid)
	case st.Mode&0o002 != 0:
		err = errors.New("everybody may write to it: chmod o-w it")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// readFromHome are what the library of PostgreSQL reads in the home unless the URL names another: passwords, and whom it believes to be
// the server.
var readFromHome = []string{".postgresql", ".postgresql/root.crt", ".postgresql/postgresql.crt", ".postgresql/postgresql.key", ".pgpass", ".pg_service.conf"}

// leaveHome sees to it that nobody else says which server gets this user's password. As with the configuration, HOME may be that of somebody
// else: what stands there is refused, and what he may yet put there is not read before the returned function is called.
func leaveHome(scheme string) (back func(), err error) {
	home := os.Getenv("HOME")
	if scheme != "postgres" || home == "" {
		return func() {}, nil
	}
	found := false
	for _, name := range readFromHome {
		path := filepath.Join(home, name)
		var link, at unix.Stat_t
		if unix.Lstat(path, &link) != nil || unix.Stat(path, &at) != nil {
			continue
		}
		found = true
		for _, st := range []*unix.Stat_t{&link, &at} {
			if isStrangers(st) {
				return nil, fail(codeConfig, "%s: it belongs to user %d, who could say which server gets your password: chown it, or set HOME to what is yours",
					coord.Printable(path), st.Uid)
			}
		}
	}
	var st unix.Stat_t
	switch {
	case unix.Stat(home, &st) != nil || !isStrangers(&st):
		return func() {}, nil
	case found: // he may put another in its place at any time
		return nil, fail(codeConfig, "%s: it belongs to user %d, who could say which server gets your password: set HOME to what is yours",
			coord.Printable(home), st.Uid)
	}
	os.Unsetenv("HOME")
	return func() { os.Setenv("HOME", home) }, nil
}
