//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/coord/register"
)

// A process that keeps a key has an exclusive flock on its file. The kernel takes the flock back when the process ends,
// however it ends, and a child process that is started with os/exec does not inherit it.
//
// It also has a named pipe beside the file open for writing. A process that is to keep the key after it inherits that, and not
// the file: whoever has the file could unlock it, and it may be less trusted than who has started it. So a key is kept as long as its
// file is locked, and after that as long as somebody has its pipe open for writing.
//
// A wait in flock could not be called off, so waiters read from the pipe: the read ends when nobody keeps the key any more. That is only
// a hint to look; waiters also look now and then without it.
//
// A process that only looks takes a shared flock for a moment. A file is removed only by a process that has locked it
// exclusively, while it has its name: the one that kept the key, or one that tidies up and has locked the directory as well.
// So a process that cannot lock a file locks the directory to find out whether somebody really keeps the key.

// keeping is a key that is kept by this process.
type keeping struct {
	s     *Store
	place *place
	name  string
	file  *os.File
	pipe  *os.File // nil if the file system has none
	once  sync.Once
}

// pipeOf is the name of the pipe beside a key's file.
func pipeOf(name string) string { return "~" + name }

// Keep keeps a key until release is called or the process has ended; Close does not release it.
func (s *Store) Keep(ctx context.Context, key string) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer p.leave()
	k, err := s.keep(ctx, p, nameOf(key))
	if errors.Is(err, register.ErrConflict) {
		if err := p.lock(ctx, &p.kept); err != nil {
			return nil, err
		}
		k, err = s.keep(ctx, p, nameOf(key))
		p.unlock(&p.kept)
	}
	if err != nil {
		return nil, err
	}
	_ = k.file.Truncate(0)
	_, _ = fmt.Fprintf(k.file, "%s\nkept by process %d of %s since %s\n", key, os.Getpid(), host(), time.Now().Format(time.RFC3339))
	p.users.Add(1)
	s.mu.Lock()
	s.kept[k] = struct{}{}
	s.mu.Unlock()
	return k.release, nil
}

// keep may take a process that tidies up for one that keeps the key, unless it is called with the lock of the directory.
func (s *Store) keep(ctx context.Context, p *place, name string) (*keeping, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	f, err := p.lockKept(ctx, name)
	if err != nil {
		return nil, err
	}
	k := &keeping{s: s, place: p, name: name, file: f}
	p.kept.dir.remove(pipeOf(name)) // left by a dead process
	k.pipe, err = p.kept.dir.makePipe(pipeOf(name))
	if err != nil && !hasNoPipes(err) { // the disk may be full for a moment only, and who inherits the file could unlock it
		p.removeKept(name, f)
		f.Close()
		return nil, trouble("make a pipe", err)
	}
	if err != nil {
		s.Log.Warn("file: the end of this process will be noticed late", "dir", p.path, "err", err)
	}
	return k, nil
}

// hasNoPipes reports whether a file system cannot have pipes, which WithAnyFileSystem allows.
func hasNoPipes(err error) bool {
	return slices.Contains([]error{unix.EPERM, unix.EINVAL, unix.ENOSYS, unix.ENOTSUP, unix.EOPNOTSUPP}, err)
}

func host() string {
	name, _ := os.Hostname()
	return name
}

// lockKept opens the file of a key, and locks it.
func (p *place) lockKept(ctx context.Context, name string) (*os.File, error) {
	path := filepath.Join(keptDir, name)
	for {
		fd, err := p.kept.dir.makeFile(name, unix.O_RDWR)
		if err == unix.EEXIST {
			if fd, _, err = p.kept.dir.file(name, unix.O_RDWR); err == unix.ENOENT {
				continue // it has just gone
			}
		}
		if err != nil {
			return nil, trouble("open "+path, err)
		}
		f := os.NewFile(uintptr(fd), filepath.Join(p.path, path))
		err = flock(f, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && p.names(name, f) {
			inherited, err := p.inherited(name)
			if err == nil && !inherited {
				return f, nil
			}
			f.Close()
			if err == nil {
				err = fmt.Errorf("file: %s is kept: %w", path, register.ErrConflict)
			}
			return nil, err
		}
		if err == unix.EWOULDBLOCK { // somebody keeps it, or only looks
			err = flock(f, unix.LOCK_SH|unix.LOCK_NB)
		}
		f.Close()
		if err == unix.EWOULDBLOCK {
			return nil, fmt.Errorf("file: %s is kept: %w", path, register.ErrConflict)
		}
		if err != nil {
			return nil, trouble("lock "+path, err)
		}
		if err := sleep(ctx, 100*time.Microsecond); err != nil {
			return nil, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *keeping) release() {
	k.once.Do(func() {
		k.s.mu.Lock()
		delete(k.s.kept, k)
		k.s.mu.Unlock()
		k.place.removeKept(k.name, k.file)
		_ = k.file.Close()
		_ = k.pipe.Close()
		k.place.leave()
	})
}

// removeKept removes the two files of a key, unless they have gone already; f is the one that we have locked. The pipe goes
// first: as soon as the name is free, both may be somebody else's.
func (p *place) removeKept(name string, f *os.File) {
	if p.names(name, f) {
		p.kept.dir.remove(pipeOf(name))
		p.kept.dir.remove(name)
	}
}

// names reports whether a name in the directory of kept keys is that of an open file.
func (p *place) names(name string, f *os.File) bool {
	var file unix.Stat_t
	if again(func() error { return unix.Fstat(int(f.Fd()), &file) }) != nil {
		return false
	}
	named, err := p.kept.dir.stat(name)
	return err == nil && numberOf(&file) == numberOf(&named)
}

// keptIsGone reports whether somebody has removed the file of a key that we keep: then others must think that we are dead.
func (s *Store) keptIsGone(p *place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.kept {
		if k.place == p && !p.names(k.name, k.file) {
			return true
		}
	}
	return false
}

// lookWithout is how often a waiter for a key looks if there is no pipe.
const lookWithout = 4 * time.Millisecond

// Unkept waits until nobody keeps a key.
func (s *Store) Unkept(ctx context.Context, key string) error {
	name := nameOf(key)
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, lookWithout) {
		if err := ctx.Err(); err != nil {
			return err
		}
		kept, pipe, err := s.isKept(name)
		if err != nil || !kept {
			return err
		}
		if pipe != nil && ends(ctx, pipe) {
			pause = 100 * time.Microsecond // the file is unlocked at the same moment, or just after
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// isKept reports whether somebody keeps a key. If so, and if it can be opened, pipe ends when the key is no longer kept.
func (s *Store) isKept(name string) (kept bool, pipe *os.File, err error) {
	p, err := s.enter()
	if err != nil {
		return false, nil, err
	}
	defer p.leave()
	if kept, err = p.isKept(name); err != nil || !kept {
		if err == nil {
			err = p.check()
		}
		return false, nil, err
	}
	if fd, err := p.kept.dir.pipe(pipeOf(name), unix.O_RDONLY); err == nil {
		pipe = os.NewFile(uintptr(fd), name)
	}
	return true, pipe, nil
}

// ends reports whether a pipe ends before ctx does, and before it is time to look without it. It closes the pipe.
func ends(ctx context.Context, pipe *os.File) bool {
	defer pipe.Close()
	if pipe.SetReadDeadline(time.Now().Add(lookAtKept)) != nil {
		return false
	}
	defer context.AfterFunc(ctx, func() { _ = pipe.SetReadDeadline(time.Unix(1, 0)) })()
	_, err := pipe.Read(make([]byte, 1))
	return err == io.EOF // what somebody may write into it says nothing
}

func (p *place) isKept(name string) (bool, error) {
	fd, _, err := p.kept.dir.file(name, unix.O_RDONLY)
	if err == unix.ENOENT {
		return false, nil
	}
	if err != nil {
		return false, trouble("open "+filepath.Join(keptDir, name), err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	switch err := flock(f, unix.LOCK_SH|unix.LOCK_NB); err {
	case nil:
		_ = flock(f, unix.LOCK_UN)
		inherited, err := p.inherited(name)
		if err != nil || inherited {
			return inherited, err
		}
		p.tidy(name, f)
		return false, nil
	case unix.EWOULDBLOCK:
		return true, nil
	default:
		return false, trouble("lock "+filepath.Join(keptDir, name), err)
	}
}

// inherited reports whether a key whose file is not locked is kept by somebody who has inherited its pipe.
func (p *place) inherited(name string) (bool, error) {
	fd, err := p.kept.dir.pipe(pipeOf(name), unix.O_RDONLY)
	if err == unix.ENOENT || err == errNotOurs {
		return false, nil
	}
	if err != nil {
		return false, trouble("open "+filepath.Join(keptDir, pipeOf(name)), err)
	}
	defer unix.Close(fd)
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	for range 100 {
		switch n, err := unix.Read(fd, *b); {
		case err == unix.EAGAIN:
			return true, nil
		case err == nil && n == 0: // nobody has it open for writing
			return false, nil
		case err != nil && err != unix.EINTR:
			return false, trouble("read "+filepath.Join(keptDir, pipeOf(name)), err)
		}
	}
	return true, nil // it has more in it than a pipe holds, so somebody writes
}

// tidy removes the file of a key that nobody keeps, unless somebody is just about to keep it.
func (p *place) tidy(name string, f *os.File) {
	select {
	case p.kept.inside <- struct{}{}:
	default:
		return
	}
	defer func() { <-p.kept.inside }()
	if flock(p.kept.dir.f, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	defer flock(p.kept.dir.f, unix.LOCK_UN)
	if flock(f, unix.LOCK_EX|unix.LOCK_NB) == nil {
		p.removeKept(name, f)
	}
}

// sweep removes what dead processes have left.
func (p *place) sweep(ctx context.Context) {
	p.sweepNotes(ctx)
	names, err := p.kept.dir.names()
	if err != nil {
		return
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return
		}
		if isName(name) { // a pipe goes with its file
			_, _ = p.isKept(name)
		}
	}
}
