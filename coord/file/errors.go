//go:build linux || darwin

package file

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
)

func denied(format string, args ...any) error {
	return fmt.Errorf("file: %w: %w", driver.ErrDenied, fmt.Errorf(format, args...))
}

func missing(format string, args ...any) error {
	return fmt.Errorf("file: %w: %w", driver.ErrMissing, fmt.Errorf(format, args...))
}

// unnamed makes an error of what the system says about the path of the directory itself.
func unnamed(what string, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return missing("%s: %w", what, err)
	case errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ELOOP):
		return fmt.Errorf("file: %w: %s: %w", coord.ErrInvalid, what, err)
	}
	return refusal(what, err)
}

// refusal makes an error of what the system says. Trouble that passes by itself is no denial.
func refusal(what string, err error) error {
	switch {
	case errors.Is(err, unix.EFBIG):
		return denied("%s: this process may not make a file as large as that, and nothing was changed: raise the limit (ulimit -f): %w", what, err)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS), errors.Is(err, unix.ENOTDIR),
		errors.Is(err, unix.ENOENT), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG), errors.Is(err, unix.EINVAL),
		errors.Is(err, errNotOurs), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ESPIPE), errors.Is(err, unix.EISDIR):
		return denied("%s: %w", what, err)
	}
	return fmt.Errorf("file: %s: %w", what, err)
}

// trouble makes an error of what the system says. Where it can, it adds what to do.
func trouble(what string, err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("file: %s: the disk is full, and nothing was changed: make room: %w", what, err)
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return fmt.Errorf("file: %s: there are too many open files: raise the limit (ulimit -n): %w", what, err)
	}
	return refusal(what, err)
}
