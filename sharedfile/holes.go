package sharedfile

import (
	"bytes"
	"io"
	"os"
)

// A file of a terabyte may be one hole, and take up nothing. Whoever has put it at the path must not have us fill the disk with a copy of it,
// or read nothing for hours.

// copyData copies what is in a file up to a size, and leaves holes where there are any.
func copyData(to, from *os.File, size int64) error {
	for at := nextData(from, 0, size); at < size; at = nextData(from, at, size) {
		end := nextHole(from, at, size)
		if _, err := io.Copy(io.NewOffsetWriter(to, at), io.NewSectionReader(from, at, end-at)); err != nil {
			return err
		}
		at = end
	}
	return to.Truncate(size)
}

// sameData reports whether two files of a size have the same in them.
func sameData(a, b *os.File, size int64) bool {
	var x, y [64 << 10]byte
	for at := int64(0); ; {
		if at = min(nextData(a, at, size), nextData(b, at, size)); at >= size {
			return true
		}
		n := min(size-at, int64(len(x)))
		if readAll(a, x[:n], at) != nil || readAll(b, y[:n], at) != nil || !bytes.Equal(x[:n], y[:n]) {
			return false
		}
		at += n
	}
}

func readAll(f *os.File, b []byte, at int64) error {
	_, err := io.ReadFull(io.NewSectionReader(f, at, int64(len(b))), b)
	return err
}
