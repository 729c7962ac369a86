//go:build linux || darwin

package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// dir is an open directory of ours. Whatever is done to a file goes through one, by a name without a slash, and no symbolic
// link is followed: somebody who may write to the directory cannot lead us out of it. Nothing is waited for when a file is
// opened, so a pipe in the place of a file holds up nobody.
type dir struct {
	f  *os.File // nil if it is open for a moment only: then these say the same
	by *owners

	brief int    // the descriptor
	above *dir   // in which it lies
	name  string // by which it lies there
}

// owners are those to whom the whole directory belongs.
type owners struct {
	uid, gid         uint32
	group            bool   // all of the group take part
	mode             uint32 // of files
	giveUID, giveGID int    // whose the files become that we make; -1 if that is so anyway

	top uint32 // the mode of the whole directory
	acl acl
}

// errNotOurs says that a file is not what we put there.
var errNotOurs = errors.New("it is not what turnwise puts there: a link, another kind of file, or another user's; remove it")

// openTop opens the whole directory by its path. Only a link that we or root have made leads there.
func openTop(path string) (d *dir, st unix.Stat_t, err error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	fd, err := unix.Open(path, flags|unix.O_NOFOLLOW, 0)
	if err != nil && again(func() error { return unix.Lstat(path, &st) }) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		if st.Uid != 0 && int(st.Uid) != os.Geteuid() {
			return nil, st, denied("%s is a symbolic link that user %d has made: name the directory itself", path, st.Uid)
		}
		fd, err = unix.Open(path, flags, 0)
	}
	if err != nil {
		return nil, st, refusal("open "+path, err)
	}
	d = &dir{f: os.NewFile(uintptr(fd), path)}
	if err = again(func() error { return unix.Fstat(fd, &st) }); err != nil {
		d.close()
		return nil, st, refusal("open "+path, err)
	}
	return d, st, nil
}

// makeTop makes the whole directory, and lets the group in if that is wanted.
func makeTop(path string, group bool) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	var made unix.Stat_t
	if err := again(func() error { return unix.Lstat(path, &made) }); err == nil && isClosedToUs(&made) {
		_ = os.Remove(path)
		return errUmask
	}
	if !group {
		return nil
	}
	d, st, err := openTop(path)
	if err != nil {
		return err
	}
	defer d.close()
	if int(st.Uid) != os.Geteuid() { // somebody else was quicker
		return fs.ErrExist
	}
	return unix.Fchmod(d.fd(), 0o2770)
}

// errUmask says that what this process makes is of no use to it. What it has made just now must not stay: it would be of no use to anybody.
var errUmask = denied("the umask, or a default access control list, takes away what this user may do in the directories that it makes: umask 077")

// isClosedToUs reports whether a directory that we have just made is of no use to us.
func isClosedToUs(st *unix.Stat_t) bool { return st.Mode&0o700 != 0o700 && os.Geteuid() != 0 }

// ownersOf finds out to whom the whole directory belongs.
func ownersOf(st *unix.Stat_t, a acl) *owners {
	o := &owners{uid: st.Uid, gid: st.Gid, mode: 0o600, giveUID: -1, giveGID: -1, top: uint32(st.Mode), acl: a} //nolint:unconvert // Mode is 16 bits on macOS
	o.group = o.top&0o070 == 0o070 && (!a.there || a.group == 7)
	if o.group {
		o.mode = 0o660
	}
	if os.Geteuid() == 0 && o.uid != 0 {
		o.giveUID, o.giveGID = int(o.uid), int(o.gid)
	}
	if o.group && st.Mode&unix.S_ISGID == 0 && os.Getegid() != int(o.gid) {
		o.giveGID = int(o.gid)
	}
	return o
}

// ours reports whether a file may be in the directory, and the directory itself be used: it is ours or root's. In a group's
// directory each of the group may have made it. Root may visit the directory of any user, and works as that user would.
func (o *owners) ours(st *unix.Stat_t) bool {
	me := os.Geteuid()
	return o.group || st.Uid == 0 || int(st.Uid) == me || me == 0 && st.Uid == o.uid
}

// adopt makes a file that we have just made the owners'. It may be called only for a file that we have made.
func (o *owners) adopt(fd int, mode uint32) error {
	if o.giveUID != -1 || o.giveGID != -1 {
		if err := unix.Fchown(fd, o.giveUID, o.giveGID); err != nil {
			return err
		}
	}
	if o.group || o.giveUID != -1 { // whatever our umask takes away
		return unix.Fchmod(fd, mode)
	}
	return nil
}

// othersMayLock reports whether users may open the directory, and so lock it, who may not write to it.
func (o *owners) othersMayLock(st *unix.Stat_t) bool {
	return st.Mode&0o004 != 0 || st.Mode&0o040 != 0 && !o.group || o.acl.looks
}

// open reports whether those who take no part get to a directory within, and may open it. Whoever can do that can lock it, and then
// all stand still.
func (o *owners) open(mode uint32, a acl) bool {
	return o.top&0o001 != 0 && mode&0o005 != 0 ||
		o.top&0o010 != 0 && mode&0o050 != 0 && !o.group ||
		(o.top&0o001 != 0 || o.acl.there) && a.looks
}

func (d *dir) path() string {
	if d.f == nil {
		return d.above.pathOf(d.name)
	}
	return d.f.Name()
}

func (d *dir) fd() int {
	if d.f == nil {
		return d.brief
	}
	return int(d.f.Fd())
}

// close may be called on nil.
func (d *dir) close() {
	switch {
	case d == nil:
	case d.f == nil:
		unix.Close(d.brief)
	default:
		_ = d.f.Close()
	}
}

// open opens what has a name, whatever it is.
func (d *dir) open(name string, flags int, mode uint32) (fd int, err error) {
	if name == ".." || name == "" || strings.Contains(name, "/") {
		return -1, errNotOurs
	}
	if flags&unix.O_DIRECTORY == 0 {
		flags |= unix.O_NONBLOCK
	}
	for {
		fd, err = unix.Openat(d.fd(), name, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// openKind opens what has a name, and refuses it if it is of another kind or owner.
func (d *dir) openKind(name string, flags int, kind uint32) (fd int, st unix.Stat_t, err error) {
	fd, err = d.open(name, flags, 0)
	if err == unix.ELOOP {
		err = errNotOurs
	}
	if err != nil {
		return -1, st, err
	}
	err = again(func() error { return unix.Fstat(fd, &st) })
	if err == nil && (uint32(st.Mode)&unix.S_IFMT != kind || !d.by.ours(&st)) { //nolint:unconvert // Mode is 16 bits on macOS
		err = errNotOurs
	}
	if err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// file opens a file. To write to it, it must have no other name: what a link to it leads to may be anybody's.
func (d *dir) file(name string, flags int) (fd int, st unix.Stat_t, err error) {
	fd, st, err = d.openKind(name, flags, unix.S_IFREG)
	if err == nil && flags&unix.O_ACCMODE != unix.O_RDONLY && st.Nlink > 1 {
		unix.Close(fd)
		return -1, st, errNotOurs
	}
	return fd, st, err
}

// makeFile makes a file.
func (d *dir) makeFile(name string, flags int) (fd int, err error) {
	fd, err = d.open(name, flags|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return -1, err
	}
	if err = d.by.adopt(fd, d.by.mode); err != nil {
		unix.Close(fd)
		d.remove(name)
		return -1, err
	}
	return fd, nil
}

// pipe opens a named pipe.
func (d *dir) pipe(name string, flags int) (fd int, err error) {
	fd, _, err = d.openKind(name, flags, unix.S_IFIFO)
	return fd, err
}

// makePipe makes a named pipe, and opens it for both directions, so that it does not end while nobody writes.
func (d *dir) makePipe(name string) (*os.File, error) {
	if err := again(func() error { return mkfifoAt(d.f, name, 0o600) }); err != nil {
		return nil, err
	}
	fd, st, err := d.openKind(name, unix.O_RDWR, unix.S_IFIFO)
	if err != nil {
		return nil, err
	}
	if int(st.Uid) != os.Geteuid() || st.Nlink != 1 {
		err = errNotOurs // somebody has put another one there meanwhile
	} else {
		err = d.by.adopt(fd, d.by.mode)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// sub opens a directory within.
func (d *dir) sub(name string) (*dir, error) {
	sub, err := d.visit(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: d.pathOf(name), Err: err}
	}
	path := d.pathOf(name)
	return &dir{f: os.NewFile(uintptr(sub.brief), path), by: d.by}, nil
}

// visit opens a directory within, for a moment and one goroutine. That is quicker than sub, and notes need it.
func (d *dir) visit(name string) (*dir, error) {
	fd, _, err := d.openKind(name, unix.O_RDONLY|unix.O_DIRECTORY, unix.S_IFDIR)
	if err == unix.ENOTDIR {
		err = errNotOurs
	}
	if err != nil {
		return nil, err
	}
	return &dir{by: d.by, brief: fd, above: d, name: name}, nil
}

// makeSub opens a directory within, and makes it if it is not there.
//
// It gets its name only when all may enter who are to: otherwise another of the group could come in between and be refused, for
// ever if this process dies there.
func (d *dir) makeSub(name string) (*dir, error) {
	sub, err := d.sub(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return sub, err
	}
	made := name
	if d.by.group || d.by.giveUID != -1 {
		made = newPrefix + unique()
	}
	err = d.mkdir(made)
	if err == nil && made != name {
		if err = d.adoptSub(made); err == nil {
			err = renameNew(d.fd(), made, name)
		}
		if err == unix.EINVAL || err == unix.ENOSYS || err == unix.ENOTSUP { // then others have to come again if they are in between
			if err = d.mkdir(name); err == nil {
				err = d.adoptSub(name)
			}
		}
		d.removeSub(made) // if it has not got its name
	}
	if err != nil && err != unix.EEXIST {
		return nil, &fs.PathError{Op: "make", Path: d.pathOf(name), Err: err}
	}
	return d.sub(name)
}

func (d *dir) mkdir(name string) error {
	err := again(func() error { return unix.Mkdirat(d.fd(), name, 0o700) })
	if err != nil {
		return err
	}
	if st, err := d.stat(name); err == nil && isClosedToUs(&st) {
		d.removeSub(name)
		return errUmask
	}
	return nil
}

// newPrefix begins the name of a directory that is being made.
const newPrefix = ".new-"

// adoptSub makes a directory that we have just made the owners'.
func (d *dir) adoptSub(name string) error {
	sub, err := d.sub(name)
	if err != nil {
		return err
	}
	defer sub.close()
	var st unix.Stat_t
	if err := again(func() error { return unix.Fstat(sub.fd(), &st) }); err != nil {
		return err
	}
	if int(st.Uid) != os.Geteuid() {
		return errNotOurs
	}
	mode := uint32(0o700)
	if d.by.group {
		mode = 0o2770
	}
	return d.by.adopt(sub.fd(), mode)
}

// writable says why nothing can be written to the directory.
func (d *dir) writable() error {
	return unix.Faccessat(d.fd(), ".", unix.R_OK|unix.W_OK|unix.X_OK, 0)
}

// closed refuses a directory that those may open who take no part.
func (d *dir) closed() error {
	var st unix.Stat_t
	if err := again(func() error { return unix.Fstat(d.fd(), &st) }); err != nil {
		return refusal("look at "+d.path(), err)
	}
	if d.by.open(uint32(st.Mode), aclAt(d.fd())) { //nolint:unconvert // Mode is 16 bits on macOS
		return denied("others may open %s (%v), and so lock it and stop all: chmod 700 it, or 2770 for a group, and take away its access control list, "+
			"if it has one (setfacl -b)", d.path(), fs.FileMode(st.Mode&0o777))
	}
	return nil
}

// has reports whether a name in the directory is still that of one that was opened by it.
func (d *dir) has(name string, opened *dir) bool {
	now, err := d.stat(name)
	if err != nil {
		return !errors.Is(err, unix.ENOENT)
	}
	var st unix.Stat_t
	err = again(func() error { return unix.Fstat(opened.fd(), &st) })
	return err != nil || numberOf(&now) == numberOf(&st)
}

func (d *dir) stat(name string) (st unix.Stat_t, err error) {
	err = again(func() error { return unix.Fstatat(d.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return st, err
}

// remove removes a name; a link goes, and not what it leads to.
func (d *dir) remove(name string) (removed bool) {
	return !strings.Contains(name, "/") && unix.Unlinkat(d.fd(), name, 0) == nil
}

// removeSub removes a directory if it is empty.
func (d *dir) removeSub(name string) { _ = unix.Unlinkat(d.fd(), name, unix.AT_REMOVEDIR) }

func (d *dir) rename(from, to string) error {
	fd := d.fd()
	return again(func() error { return unix.Renameat(fd, from, fd, to) })
}

// read returns what a file begins with, up to a limit.
func (d *dir) read(name string, most int) (b []byte, st unix.Stat_t, err error) {
	fd, st, err := d.file(name, unix.O_RDONLY)
	if err != nil {
		return nil, st, err
	}
	defer unix.Close(fd)
	b = make([]byte, most)
	n, err := readAt(fd, b, 0)
	return b[:n], st, err
}

// names lists the directory.
func (d *dir) names() ([]string, error) {
	fd, err := d.open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return namesOf(fd)
}

// fileNumber tells a file from all others that there are at the moment.
type fileNumber struct{ device, inode uint64 }

func numberOf(st *unix.Stat_t) fileNumber {
	return fileNumber{uint64(st.Dev), st.Ino} //nolint:unconvert // Dev is 32 bits on macOS
}

// numberAt returns the number of the file that a path leads to. It only looks.
func numberAt(path string) (fileNumber, error) {
	var st unix.Stat_t
	err := again(func() error { return unix.Stat(path, &st) })
	return numberOf(&st), err
}

// pathOf is for messages.
func (d *dir) pathOf(name string) string { return filepath.Join(d.path(), name) }
