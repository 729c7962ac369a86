package file

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// bootID names the run of the machine. It is empty where the kernel does not say.
func bootID() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return id
}

// suits refuses a directory on an unfit file system: one that is not of this machine, or lacks named pipes or rights.
func suits(path string, c *config) error {
	var st unix.Statfs_t
	if err := again(func() error { return unix.Statfs(path, &st) }); err != nil {
		return refusal("look at the file system of "+path, err)
	}
	switch name := unix.ByteSliceToString(st.Fstypename[:]); {
	case c.anyFS:
	case st.Flags&unix.MNT_LOCAL == 0, name == "macfuse", name == "osxfuse", name == "msdos", name == "exfat", name == "ntfs":
		return unfitFor(path, name)
	}
	return nil
}

// aclAt returns none: no call that needs no cgo tells of those of macOS.
func aclAt(int) acl { return acl{} }

// exchange swaps the names of two files of a directory in one step.
func exchange(dir *os.File, a, b string) error {
	fd := int(dir.Fd())
	return again(func() error { return unix.RenameatxNp(fd, a, fd, b, unix.RENAME_SWAP) })
}

// renameNew renames a file or a directory unless there is another of that name. Some file systems cannot: EINVAL.
func renameNew(fd int, from, to string) error {
	return again(func() error { return unix.RenameatxNp(fd, from, fd, to, unix.RENAME_EXCL) })
}

func flush(f *os.File) error { return f.Sync() } // Sync also empties the disk's own cache

func flushFD(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	return err
}

// mkfifoAt makes a named pipe, by its path. If another directory is there by now the pipe is not found where we look.
func mkfifoAt(dir *os.File, name string, mode uint32) error {
	return unix.Mkfifo(filepath.Join(dir.Name(), name), mode)
}

// atOnce is the most that is written to a pipe as a whole or not at all.
const atOnce = 512

// lookAtKept is how often a waiter for a key looks although the pipe has not ended: kqueue does not tell when the last
// writer of a named pipe has gone (https://go.dev/issue/24164).
const lookAtKept = 4 * time.Millisecond
