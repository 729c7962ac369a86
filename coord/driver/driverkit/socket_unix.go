//go:build unix

package driverkit

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// anybodyMayListen reports whether any user of this machine could have a socket at a path: there is a directory on the way to
// which everybody may write, such as /tmp, and what comes next is not a directory or a link of ours or of root's, which
// nobody else may replace. A socket there never counts, whoever owns it: when its server ends, it is gone.
func anybodyMayListen(socket string) bool {
	if strings.HasPrefix(socket, "@") { // in no directory
		return true
	}
	at, rest := "/", strings.Split(filepath.Clean(socket)[1:], "/")
	for links := 0; len(rest) > 0; {
		dir, err := os.Lstat(at)
		if err != nil {
			return false // and only whoever may write above can change that
		}
		at = filepath.Join(at, rest[0]) // a way that is resolved, so .. leads back
		rest = rest[1:]
		next, err := os.Lstat(at)
		if dir.Mode().Perm()&0o002 != 0 && (err != nil || len(rest) == 0 || dir.Mode()&fs.ModeSticky == 0 || !isOurs(next)) {
			return true
		}
		if err != nil || next.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		to, err := os.Readlink(at)
		if links++; err != nil || links > 40 {
			return true
		}
		at = filepath.Dir(at)
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(strings.Trim(to, "/"), "/"), rest...)
	}
	return false
}

func isOurs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}
