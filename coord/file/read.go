//go:build linux || darwin

package file

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/coord/register"
)

var errCollision = errors.New("the file is another key's: the names of the two collide")

// Read returns what stands in a register. It locks nothing unless others swap the register again and again meanwhile.
func (s *Store) Read(ctx context.Context, key string) (register.Item, error) {
	if err := ctx.Err(); err != nil {
		return register.Item{}, err
	}
	p, err := s.enter()
	if err != nil {
		return register.Item{}, err
	}
	defer p.leave()
	name := nameOf(key)
	i := shardOf(name)
	if err := p.openShard(ctx, i); err != nil {
		return register.Item{}, err
	}
	item, err := p.read(ctx, &p.shards[i], name, key)
	if err == nil {
		err = p.check()
	}
	if err != nil {
		return register.Item{}, err
	}
	return item, nil
}

// maxReads is how often a read is tried while others swap, before it locks them out.
const maxReads = 5

// errSwapped says that a register was swapped while it was read.
var errSwapped = errors.New("swapped while it was read")

// read returns what stands in a register. If key is empty any key will do.
func (p *place) read(ctx context.Context, l *lock, name, key string) (register.Item, error) {
	for range maxReads {
		item, err := load(l.dir, name, true)
		if err == errSwapped || err == errDamaged {
			continue
		}
		return p.judge(l, name, key, item, err)
	}
	if err := p.lock(ctx, l); err != nil {
		return register.Item{}, err
	}
	defer p.unlock(l)
	return p.locked(l, name, key)
}

// locked returns what stands in a register. It needs the lock.
func (p *place) locked(l *lock, name, key string) (register.Item, error) {
	item, err := load(l.dir, name, false)
	return p.judge(l, name, key, item, err)
}

func (p *place) judge(l *lock, name, key string, item register.Item, err error) (register.Item, error) {
	switch {
	case err == unix.ENOENT:
		return register.Item{Key: key}, p.empty(l)
	case err == nil && key != "" && key != item.Key:
		err = errCollision
		fallthrough
	case err == errDamaged:
		return register.Item{}, denied("%s: %w", l.dir.pathOf(name), err)
	case err != nil:
		return register.Item{}, trouble("read "+l.dir.pathOf(name), err)
	}
	return item, nil
}

// load reads a register's file. If open is set, others may swap meanwhile, and it makes sure that what it read was in the
// register: a file that is being read may become the spare one, and be written to.
func load(d *dir, name string, open bool) (item register.Item, err error) {
	fd, err := d.open(name, unix.O_RDONLY, 0) // a pipe cannot be read at a place, so it need not be told apart
	if err != nil {
		return item, err
	}
	defer unix.Close(fd)
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	b := *buf
	n, err := readAt(fd, b, 0)
	if err != nil {
		return item, err
	}
	h, err := parseHead(b[:n])
	if err != nil {
		return item, err
	}
	if h.size() > n && sizeOf(fd) < int64(h.size()) {
		return item, errDamaged
	}
	whole := make([]byte, h.size())
	if n = copy(whole, b[:n]); n < len(whole) {
		if _, err = readAt(fd, whole[n:], int64(n)); err != nil {
			return item, err
		}
	}
	if open {
		if err := stillThere(d, name, fd, whole); err != nil {
			return item, err
		}
	}
	return h.from(whole)
}

func sizeOf(fd int) int64 {
	var st unix.Stat_t
	_ = again(func() error { return unix.Fstat(fd, &st) })
	return st.Size
}

// stillThere makes sure that a file still has the name that it was opened by, and has not been written to meanwhile: it
// begins as it did. No version comes again, so it has begun like this all the time, and did so when it was found under its
// name.
func stillThere(d *dir, name string, fd int, whole []byte) error {
	var file unix.Stat_t
	if err := again(func() error { return unix.Fstat(fd, &file) }); err != nil {
		return err
	}
	named, err := d.stat(name)
	if err == unix.ENOENT {
		return errSwapped
	}
	if err != nil {
		return err
	}
	var begin [headLength]byte
	if _, err := readAt(fd, begin[:], 0); err != nil {
		return err
	}
	if numberOf(&file) != numberOf(&named) || !bytes.Equal(begin[:], whole[:headLength]) {
		return errSwapped
	}
	return nil
}

// empty makes sure that a file is missing because the register is empty, and not because the whole directory has gone.
func (p *place) empty(l *lock) error {
	var st unix.Stat_t
	if err := again(func() error { return unix.Fstat(int(l.dir.f.Fd()), &st) }); err != nil {
		return trouble("look at "+l.dir.path(), err)
	}
	if st.Nlink == 0 {
		return p.hasGone(filepath.Join(registersDir, filepath.Base(l.dir.path())))
	}
	return nil
}
