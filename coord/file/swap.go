//go:build linux || darwin

package file

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/coord/register"
)

// Swap replaces what stands in a register, with its directory locked. It writes the new content to the spare file of the
// directory, which then changes places with the present one. So no file is made and no blocks are taken, a reader sees one
// content or the other, and a process that is killed leaves at worst a spare file with something in it.
func (s *Store) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	if err := ctx.Err(); err != nil {
		return register.Item{}, err
	}
	p, err := s.enter()
	if err != nil {
		return register.Item{}, err
	}
	if !p.sync || ctx.Done() == nil {
		defer p.leave()
		return s.swap(ctx, p, w)
	}
	// The disk may be slow, so another goroutine waits for it.
	type answer struct {
		item register.Item
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		defer p.leave()
		item, err := s.swap(ctx, p, w)
		done <- answer{item, err}
	}()
	select {
	case a := <-done:
		return a.item, a.err
	case <-ctx.Done():
		return register.Item{}, ctx.Err()
	}
}

func (s *Store) swap(ctx context.Context, p *place, w register.Swap) (register.Item, error) {
	name := nameOf(w.Key)
	l, err := p.shard(ctx, shardOf(name))
	if err != nil {
		return register.Item{}, err
	}
	defer p.unlock(l)
	version, err := p.version(l, name, w.Key)
	if err != nil {
		return register.Item{}, err
	}
	if version != w.Old {
		item, err := p.locked(l, name, w.Key)
		if err == nil && version != w.Next {
			return item, register.ErrConflict
		}
		if err == nil && p.sync {
			err = unsynced(l, flush(l.dir)) // the earlier try may not have got that far
		}
		return item, err
	}
	if err := p.write(l, name, w); err != nil {
		return register.Item{}, trouble("write "+filepath.Join(l.dir.Name(), name), err)
	}
	if p.sync {
		err = flush(l.dir)
	}
	for _, n := range w.Notes {
		p.tell(n)
	}
	if err != nil {
		return register.Item{}, unsynced(l, err)
	}
	if w.Next.IsZero() {
		return register.Item{Key: w.Key}, nil
	}
	return register.Item{Key: w.Key, Value: w.Value, Version: w.Next, Age: -1}, nil
}

// unsynced says that a swap was applied but may not last.
func unsynced(l *lock, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("file: write %s to the disk: %w", l.dir.Name(), err)
}

// version returns the version of what stands in a register. It needs the lock.
func (p *place) version(l *lock, name, key string) (v register.Version, err error) {
	fd, err := openAt(l.dir, name, unix.O_RDONLY, 0)
	if err == unix.ENOENT {
		return v, p.empty(l)
	}
	if err != nil {
		return v, trouble("open "+filepath.Join(l.dir.Name(), name), err)
	}
	defer unix.Close(fd)
	n, err := readAt(fd, l.head[:], 0)
	if err != nil {
		return v, trouble("read "+filepath.Join(l.dir.Name(), name), err)
	}
	h, err := parseHead(l.head[:n])
	if err == nil && h.key != key {
		err = errCollision
	}
	if err != nil {
		return v, denied("%s: %w", filepath.Join(l.dir.Name(), name), err)
	}
	return h.version, nil
}

// empty makes sure that a file is missing because the register is empty, and not because the whole directory has gone.
func (p *place) empty(l *lock) error {
	var st unix.Stat_t
	if err := again(func() error { return unix.Fstat(int(l.dir.Fd()), &st) }); err != nil {
		return trouble("look at "+l.dir.Name(), err)
	}
	if st.Nlink == 0 {
		return p.missing(filepath.Join(registersDir, filepath.Base(l.dir.Name())))
	}
	return nil
}

// write makes a swap. It needs the lock. After an error nothing is changed.
func (p *place) write(l *lock, name string, w register.Swap) error {
	fd := int(l.dir.Fd())
	if w.Next.IsZero() {
		if w.Old.IsZero() {
			return nil
		}
		return again(func() error { return unix.Renameat(fd, name, fd, spare) })
	}
	l.next = appendContent(l.next[:0], w.Key, w.Next, w.Value)
	err := p.writeSpare(l)
	if cap(l.next) > 1<<20 {
		l.next = nil
	}
	if err == nil {
		err = p.install(l, name, w.Old.IsZero())
	}
	if err != nil {
		// It must not be written to again: a reader that finds the same version twice takes the file for unchanged.
		_ = unix.Unlinkat(fd, spare, 0)
	}
	return err
}

// install puts the spare file in the place of a register's.
func (p *place) install(l *lock, name string, first bool) error {
	if !first && !p.plain.Load() {
		err := exchange(l.dir, spare, name)
		switch err {
		case unix.EINVAL, unix.ENOSYS, unix.ENOTSUP:
			p.plain.Store(true)
		default:
			return err
		}
	}
	fd := int(l.dir.Fd())
	return again(func() error { return unix.Renameat(fd, spare, fd, name) })
}

func (p *place) writeSpare(l *lock) error {
	fd, size, err := p.openSpare(l.dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for at := 0; at < len(l.next); {
		n, err := unix.Pwrite(fd, l.next[at:], int64(at))
		if err != nil && err != unix.EINTR {
			return err
		}
		at += max(n, 0)
	}
	if size > int64(len(l.next)) {
		if err := again(func() error { return unix.Ftruncate(fd, int64(len(l.next))) }); err != nil {
			return err
		}
	}
	if p.sync {
		return flushFD(fd)
	}
	return nil
}

// openSpare opens the spare file. One that cannot be used is replaced: another user has made it, or a backup has a link to
// it.
func (p *place) openSpare(dir *os.File) (fd int, size int64, err error) {
	fd, err = openAt(dir, spare, unix.O_WRONLY, 0)
	if err == nil {
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil && st.Nlink == 1 {
			return fd, st.Size, nil
		}
		unix.Close(fd)
	}
	if err != unix.ENOENT {
		_ = unix.Unlinkat(int(dir.Fd()), spare, 0)
	}
	fd, err = openAt(dir, spare, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err == nil && p.mode != 0o600 {
		if err = unix.Fchmod(fd, p.mode); err != nil {
			unix.Close(fd)
		}
	}
	return fd, 0, err
}
