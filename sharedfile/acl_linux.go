package sharedfile

import (
	"encoding/binary"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"unsafe"
)

// accessList is an access control list as the kernel writes it; nil: there is none beyond the mode. Where there is one, the mode's bits
// of the group are the most that it gives to anybody but the owner, and say nothing of the group.
type accessList []byte

const (
	listAttribute = "system.posix_acl_access"
	listVersion   = 2
	listHead      = 4 // the version
	listEntry     = 8 // tag, what is allowed, for whom
	longestList   = 1 << 16

	listOwner, listGroup, listOther = 0x01, 0x04, 0x20
)

func listAt(path string) accessList {
	name, err := syscall.BytePtrFromString(path)
	if err != nil {
		return accessList{}
	}
	return readList(func(attribute, b *byte) (uintptr, syscall.Errno) {
		n, _, errno := syscall.Syscall6(syscall.SYS_LGETXATTR, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(attribute)),
			uintptr(unsafe.Pointer(b)), longestList, 0, 0)
		return n, errno
	})
}

func listOf(f *os.File) accessList {
	return readList(func(attribute, b *byte) (uintptr, syscall.Errno) {
		n, _, errno := syscall.Syscall6(syscall.SYS_FGETXATTR, f.Fd(), uintptr(unsafe.Pointer(attribute)),
			uintptr(unsafe.Pointer(b)), longestList, 0, 0)
		return n, errno
	})
}

// readList returns a list that cannot be given to any file if it cannot be read.
func readList(read func(attribute, b *byte) (uintptr, syscall.Errno)) accessList {
	b := make([]byte, longestList)
	for {
		switch n, errno := read(listName(), &b[0]); errno {
		case syscall.EINTR:
		case 0:
			return b[:n]
		case syscall.ENODATA, syscall.ENOTSUP, syscall.ENOSYS:
			return nil
		default:
			return accessList{}
		}
	}
}

// give gives a file the list, without a right to write for anybody but the owner, who gets more. foreign says that the file's group is
// another one.
func (l accessList) give(to *os.File, foreign bool, more fs.FileMode) error {
	if len(l) < listHead || binary.LittleEndian.Uint32(l) != listVersion || (len(l)-listHead)%listEntry != 0 {
		return syscall.EINVAL
	}
	l = slices.Clone(l)
	shut := false // the group may read less than all others
	for e := l[listHead:]; len(e) > 0; e = e[listEntry:] {
		may := binary.LittleEndian.Uint16(e[2:]) &^ 2
		switch binary.LittleEndian.Uint16(e) {
		case listOwner:
			may |= 4 | uint16(more>>6)
		case listGroup:
			if shut = foreign && may&4 == 0; foreign {
				may = 0
			}
		case listOther: // comes last
			if shut {
				may = 0
			}
		}
		binary.LittleEndian.PutUint16(e[2:], may)
	}
	return again(func() syscall.Errno {
		_, _, errno := syscall.Syscall6(syscall.SYS_FSETXATTR, to.Fd(), uintptr(unsafe.Pointer(listName())),
			uintptr(unsafe.Pointer(&l[0])), uintptr(len(l)), 0, 0)
		return errno
	})
}

// unlist takes the list away that a file has got from its directory.
func unlist(f *os.File) error {
	err := again(func() syscall.Errno {
		_, _, errno := syscall.Syscall(syscall.SYS_FREMOVEXATTR, f.Fd(), uintptr(unsafe.Pointer(listName())), 0)
		return errno
	})
	if err == syscall.ENODATA || err == syscall.ENOTSUP || err == syscall.ENOSYS {
		return nil
	}
	return err
}

// listName returns the attribute's name as the kernel takes it.
func listName() *byte { return &[]byte(listAttribute + "\x00")[0] }

func again(call func() syscall.Errno) error {
	for {
		switch errno := call(); errno {
		case syscall.EINTR:
		case 0:
			return nil
		default:
			return errno
		}
	}
}
