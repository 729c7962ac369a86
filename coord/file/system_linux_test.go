package file

import (
	"testing"

	"golang.org/x/sys/unix"
)

func fileSystem(t testing.TB, dir string) uint32 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return uint32(st.Type)
}
