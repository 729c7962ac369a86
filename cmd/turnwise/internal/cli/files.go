//go:build linux || darwin

package cli

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
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
