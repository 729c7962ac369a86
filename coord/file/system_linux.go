package file

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// bootID names the run of the machine. It is empty where the kernel does not say.
func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// unfit are file systems that several machines may share, or that lack named pipes or rights.
var unfit = map[uint32]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "CIFS",
	unix.FUSE_SUPER_MAGIC: "FUSE", unix.V9FS_MAGIC: "9p", 0x0bd00bd0: "Lustre", unix.CEPH_SUPER_MAGIC: "Ceph",
	unix.AFS_SUPER_MAGIC: "AFS", unix.AFS_FS_MAGIC: "AFS", unix.CODA_SUPER_MAGIC: "Coda", unix.NCP_SUPER_MAGIC: "NCP",
	unix.OCFS2_SUPER_MAGIC: "OCFS2", 0x01161970: "GFS2", 0x47504653: "GPFS", 0x19830326: "BeeGFS", 0xaad7aaea: "PanFS",
	0x786f4256: "VirtualBox shared folders", 0xbacbacbc: "VMware shared folders",
	unix.MSDOS_SUPER_MAGIC: "FAT", unix.EXFAT_SUPER_MAGIC: "exFAT", 0x7366746e: "NTFS",
}

// suits refuses a directory on an unfit file system.
func suits(path string, c *config) error {
	var st unix.Statfs_t
	if err := again(func() error { return unix.Statfs(path, &st) }); err != nil {
		return refusal("look at the file system of "+path, err)
	}
	if name := unfit[uint32(st.Type)]; name != "" && !c.anyFS {
		return unfitFor(path, name)
	}
	return nil
}

// aclAt returns the access control list of an open file. Most have none.
func aclAt(fd int) (a acl) {
	b := make([]byte, 1<<16) // the longest there can be
	var n int
	err := again(func() (err error) {
		n, err = unix.Fgetxattr(fd, "system.posix_acl_access", b)
		return err
	})
	if err != nil {
		return a
	}
	return parseACL(b[:n])
}

// exchange swaps the names of two files of a directory in one step.
func exchange(dir *os.File, a, b string) error {
	fd := int(dir.Fd())
	return again(func() error { return unix.Renameat2(fd, a, fd, b, unix.RENAME_EXCHANGE) })
}

// renameNew renames a file or a directory unless there is another of that name. Some file systems cannot: EINVAL.
func renameNew(fd int, from, to string) error {
	return again(func() error { return unix.Renameat2(fd, from, fd, to, unix.RENAME_NOREPLACE) })
}

func flush(f *os.File) error { return f.Sync() }

func flushFD(fd int) error { return again(func() error { return unix.Fdatasync(fd) }) }

// mkfifoAt makes a named pipe.
func mkfifoAt(dir *os.File, name string, mode uint32) error {
	return unix.Mknodat(int(dir.Fd()), name, unix.S_IFIFO|mode, 0)
}

// atOnce is the most that is written to a pipe as a whole or not at all.
const atOnce = 4096

// lookAtKept is how often a waiter for a key looks although the pipe has not ended.
const lookAtKept = time.Second
