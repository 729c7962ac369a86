//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// lock is a directory that one process at a time may have locked, with flock(2), and one goroutine in that process.
type lock struct {
	inside chan struct{} // holds a value while somebody in this process has the lock, or waits for the others
	dir    *dir          // of a shard: only after open
	open   atomic.Bool
	head   [headLength + longestKey + 1]byte // for whoever has the lock
	next   []byte
}

// lock takes a lock of the place. Another process may be stopped while it has the lock, so the wait ends with ctx.
func (p *place) lock(ctx context.Context, l *lock) error {
	select {
	case l.inside <- struct{}{}:
	default:
		select {
		case l.inside <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := flock(l.dir.f, unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return p.waitFor(ctx, l)
	}
	if err != nil {
		<-l.inside
		return refusal("lock "+l.dir.path(), err)
	}
	return nil
}

// waitFor waits for other processes. A wait in flock cannot be called off, so it is done on a goroutine, which is left
// behind when ctx ends. There is at most one for each lock.
func (p *place) waitFor(ctx context.Context, l *lock) error {
	p.users.Add(1)
	locked := make(chan error, 1)
	go func() { locked <- flock(l.dir.f, unix.LOCK_EX) }()
	var err error
	select {
	case err = <-locked:
		p.leave()
		if err != nil {
			<-l.inside
			return refusal("lock "+l.dir.path(), err)
		}
		return nil
	case <-ctx.Done():
		go func() {
			if <-locked == nil {
				_ = flock(l.dir.f, unix.LOCK_UN)
			}
			<-l.inside
			p.leave()
		}()
		return ctx.Err()
	}
}

func (p *place) unlock(l *lock) {
	_ = flock(l.dir.f, unix.LOCK_UN)
	<-l.inside
}

// shard returns one of the directories of registers, open and locked.
func (p *place) shard(ctx context.Context, i int) (*lock, error) {
	l := &p.shards[i]
	if err := p.openShard(ctx, i); err != nil {
		return nil, err
	}
	if err := p.lock(ctx, l); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		p.unlock(l)
		return nil, err
	}
	return l, nil
}

// openShard opens a directory of registers. It stays open.
func (p *place) openShard(ctx context.Context, i int) error {
	l := &p.shards[i]
	if l.open.Load() {
		return nil
	}
	select {
	case l.inside <- struct{}{}:
		defer func() { <-l.inside }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.open.Load() {
		return nil
	}
	d, err := p.registers.sub(shardName(i))
	if err != nil {
		if errors.Is(err, unix.ENOENT) {
			return p.hasGone(filepath.Join(registersDir, shardName(i)))
		}
		return trouble("open a directory of registers", err)
	}
	l.dir = d
	l.open.Store(true)
	return nil
}
