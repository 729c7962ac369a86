package sharedfile

import (
	"errors"
	"os"
	"syscall"
)

// nextData returns where the next data are in a file, from a place on; its size: there are none. A file system that does not tell has no holes.
func nextData(f *os.File, at, size int64) int64 {
	const seekData = 3
	switch data, err := f.Seek(at, seekData); {
	case err == nil:
		return max(data, at)
	case errors.Is(err, syscall.ENXIO):
		return size
	}
	return at
}

// nextHole returns where the next hole is, or its size.
func nextHole(f *os.File, at, size int64) int64 {
	const seekHole = 4
	if hole, err := f.Seek(at, seekHole); err == nil && hole > at {
		return min(hole, size)
	}
	return size
}
