//go:build linux || darwin

package cli

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/turnwise/turnwise/coord"
)

// ownSocket returns where the user's page of a service is by default.
func ownSocket(service string) (string, error) { return socketIn(doorDirs(), service) }

// socketIn puts it into the first folder that is, or can be, the user's alone.
func socketIn(dirs []string, service string) (string, error) {
	var errs []error
	for _, dir := range dirs {
		err := makeOurs(dir)
		if err == nil {
			return filepath.Join(dir, service+".serve"), nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// listenPrivately listens on a socket that only this user may use. The socket has its mode from the start: nobody can come in
// between. What a page that was killed has left behind is removed.
func listenPrivately(path string) (*net.UnixListener, error) {
	at := &net.UnixAddr{Name: path, Net: "unix"}
	l, err := bindPrivately(at)
	if errors.Is(err, syscall.EADDRINUSE) {
		c, dialled := net.DialUnix("unix", nil, at)
		if dialled == nil {
			c.Close()
		}
		if errors.Is(dialled, syscall.ECONNREFUSED) && isSocket(path) && os.Remove(path) == nil {
			l, err = bindPrivately(at)
		}
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fail(codeUnusable, "--socket %s: something is there already: take another path", coord.Printable(path))
	case errors.Is(err, syscall.EINVAL):
		return nil, fail(codeUnusable, "--socket %s: that is too long for a socket: take a path of 100 bytes or less", coord.Printable(path))
	case err != nil:
		return nil, fail(codeUnusable, "--socket %s: %w", coord.Printable(path), err)
	}
	return l, nil
}

func bindPrivately(at *net.UnixAddr) (*net.UnixListener, error) {
	defer syscall.Umask(syscall.Umask(0o177)) // nothing else makes files yet
	return net.ListenUnix("unix", at)
}

func isSocket(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && st.Mode().Type() == fs.ModeSocket
}
