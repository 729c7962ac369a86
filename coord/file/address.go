//go:build linux || darwin

package file

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// longestSocket is how long the part of an address within the directory may be.
const longestSocket = len(notesDir) + 1 + shortName + 1 + len(".4194304-0123456789ab")

// address is how the kernel is told of a socket in the directory. There is room for some hundred bytes. So a directory with
// a long path goes by a short one, which is each process's own affair: the sockets are in the directory all the same.
func (p *place) address(name string) string {
	if p.short != "" {
		return p.short + "/" + name
	}
	return p.path + "/" + name
}

// shorten finds a short path if the directory's own is too long: what the kernel has for the open directory, or a symbolic
// link in /tmp. It makes the link again if somebody has cleaned up there.
func (p *place) shorten() error {
	if len(p.path)+1+longestSocket <= longestAddress {
		return nil
	}
	if p.short == "" {
		p.short = shortcut(p.root)
	}
	if p.short != "" && !p.linked {
		return nil
	}
	link := fmt.Sprintf("/tmp/turnwise-%d-%08x", os.Getuid(), crc32.ChecksumIEEE([]byte(p.path)))
	if err := linkTo(link, p.path); err != nil {
		return err
	}
	p.short, p.linked = link, true
	return nil
}

// linkTo makes a symbolic link. One that is there already must be ours, and lead to the same directory.
func linkTo(link, path string) error {
	err := os.Symlink(path, link)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return refusal("make a short path for sockets, since that of the directory is too long", err)
	}
	st, err := os.Lstat(link)
	if err != nil {
		return refusal("look at "+link, err)
	}
	owner, _ := st.Sys().(*syscall.Stat_t)
	if to, _ := os.Readlink(link); to != path || owner == nil || int(owner.Uid) != os.Getuid() {
		return denied("%s is in the way: the path of %s is too long for sockets, and needs a link there", link, path)
	}
	return nil
}

// datagrams makes a socket to send from.
func datagrams() (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return -1, err
	}
	unix.CloseOnExec(fd)
	// macOS would let no note of more than 2 kB pass.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<18)
	return fd, nil
}

// bind makes a socket of datagrams that can be reached by a name in the directory.
func (p *place) bind(name string) (*net.UnixConn, error) {
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: p.address(name), Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	_ = c.SetReadBuffer(1 << 18)
	return c, p.admit(name)
}

// admit lets the group in where it takes part.
func (p *place) admit(name string) error {
	if p.mode == 0o600 {
		return nil
	}
	return os.Chmod(filepath.Join(p.path, name), fs.FileMode(p.mode))
}
