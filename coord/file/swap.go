//go:build linux || darwin

package file

import (
	"context"
	"fmt"

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
	if len(w.Value) > maxValue {
		return register.Item{}, fmt.Errorf("file: %w: %d bytes, and at most %d are read", register.ErrTooLarge, len(w.Value), maxValue)
	}
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
			err = unsynced(l, flush(l.dir.f)) // the earlier try may not have got that far
		}
		return item, err
	}
	if err := p.write(l, name, w); err != nil {
		return register.Item{}, trouble("write "+l.dir.pathOf(name), err)
	}
	if p.sync {
		err = flush(l.dir.f)
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
	return fmt.Errorf("file: write %s to the disk: %w", l.dir.path(), err)
}

// version returns the version of what stands in a register. It needs the lock.
func (p *place) version(l *lock, name, key string) (v register.Version, err error) {
	fd, err := l.dir.open(name, unix.O_RDONLY, 0)
	if err == unix.ENOENT {
		return v, p.empty(l)
	}
	if err != nil {
		return v, trouble("open "+l.dir.pathOf(name), err)
	}
	defer unix.Close(fd)
	n, err := readAt(fd, l.head[:], 0)
	if err != nil {
		return v, trouble("read "+l.dir.pathOf(name), err)
	}
	h, err := parseHead(l.head[:n])
	if err == nil && h.key != key {
		err = errCollision
	}
	if err != nil {
		return v, denied("%s: %w", l.dir.pathOf(name), err)
	}
	return h.version, nil
}

// write makes a swap. It needs the lock. After an error nothing is changed.
func (p *place) write(l *lock, name string, w register.Swap) error {
	if w.Next.IsZero() {
		if w.Old.IsZero() {
			return nil
		}
		return l.dir.rename(name, spareFile)
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
		l.dir.remove(spareFile)
	}
	return err
}

// install puts the spare file in the place of a register's.
func (p *place) install(l *lock, name string, first bool) error {
	if !first && !p.plain.Load() {
		err := exchange(l.dir.f, spareFile, name)
		switch err {
		case unix.EINVAL, unix.ENOSYS, unix.ENOTSUP:
			p.plain.Store(true)
		default:
			return err
		}
	}
	return l.dir.rename(spareFile, name)
}

func (p *place) writeSpare(l *lock) error {
	fd, size, err := openSpare(l.dir)
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
func openSpare(d *dir) (fd int, size int64, err error) {
	fd, st, err := d.file(spareFile, unix.O_WRONLY)
	if err == nil {
		return fd, st.Size, nil
	}
	if err != unix.ENOENT {
		d.remove(spareFile)
	}
	fd, err = d.makeFile(spareFile, unix.O_WRONLY)
	return fd, 0, err
}
