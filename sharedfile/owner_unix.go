//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sharedfile

import (
	"io/fs"
	"syscall"
)

// ownersOf returns the user and the group that a file belongs to. known is false where files have none.
func ownersOf(st fs.FileInfo) (user, group int, known bool) {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(sys.Uid), int(sys.Gid), true
}
