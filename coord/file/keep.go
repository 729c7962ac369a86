//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/coord/register"
)

// Who keeps a key has an exclusive flock on its file. The kernel takes it back when the process ends, however it ends, and a
// child process that is started with os/exec does not inherit it. That alone counts.
//
// A wait in flock could not be called off. So who keeps a key also listens on a socket beside the file, and who waits for it
// connects: the connection breaks at the same moment. It is a hint to look; there is a look now and then without it.
//
// Files of keys are made and removed under the lock of their directory. Who only looks takes a shared flock for a moment.

// keeping is a key that is kept by this process.
type keeping struct {
	s     *Store
	place *place
	name  string
	file  *os.File
	key   string
	bell  net.Listener // nil if there is none to be had
	mu    sync.Mutex
	ended bool
	calls map[net.Conn]struct{}
	once  sync.Once
}

// bellOf is the name of the socket beside a key's file.
func bellOf(key string) string { return keptDir + "/~" + nameOf(key, shortName) }

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
	if err := p.lock(ctx, &p.kept); err != nil {
		return nil, err
	}
	defer p.unlock(&p.kept)
	if err := p.check(); err != nil {
		return nil, err
	}
	name := nameOf(key, longName)
	f, err := p.take(ctx, name)
	if err != nil {
		return nil, err
	}
	k := &keeping{s: s, place: p, name: name, key: key, file: f, calls: make(map[net.Conn]struct{})}
	_ = f.Truncate(0)
	_, _ = fmt.Fprintf(f, "%s\nkept by process %d of %s since %s\n", key, os.Getpid(), host(), time.Now().Format(time.RFC3339))
	k.listen()
	p.users.Add(1)
	s.mu.Lock()
	s.kept[k] = struct{}{}
	s.mu.Unlock()
	return k.release, nil
}

func host() string {
	name, _ := os.Hostname()
	return name
}

// take opens the file of a key, and locks it. It needs the lock of the directory.
func (p *place) take(ctx context.Context, name string) (*os.File, error) {
	path := filepath.Join(keptDir, name)
	fd, err := openAt(p.kept.dir, name, unix.O_RDWR|unix.O_CREAT, 0o600)
	if err != nil {
		return nil, trouble("open "+path, err)
	}
	f := os.NewFile(uintptr(fd), filepath.Join(p.path, path))
	if p.mode != 0o600 {
		_ = f.Chmod(os.FileMode(p.mode)) // it may be there already, and another user's
	}
	for {
		err := flock(f, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if err == unix.EWOULDBLOCK {
			// Somebody keeps it, or looks whether somebody does.
			if err = flock(f, unix.LOCK_SH|unix.LOCK_NB); err == nil {
				_ = flock(f, unix.LOCK_UN)
				if err = sleep(ctx, 100*time.Microsecond); err == nil {
					continue
				}
			}
		}
		f.Close()
		if err == unix.EWOULDBLOCK {
			return nil, fmt.Errorf("turnwise: file: %s is kept: %w", path, register.ErrConflict)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, trouble("lock "+path, err)
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

// listen lets those who wait for the key connect. Without it they find out a little later. It needs the lock of the
// directory.
func (k *keeping) listen() {
	bell := bellOf(k.key)
	_ = unix.Unlinkat(int(k.place.root.Fd()), bell, 0) // of one who is dead
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: k.place.address(bell), Net: "unix"})
	if err != nil {
		k.s.config.log.Warn("turnwise: the end of this process will be noticed late", "dir", k.place.path, "error", err)
		return
	}
	l.SetUnlinkOnClose(false)
	_ = k.place.admit(bell)
	k.bell = l
	go func() {
		for {
			c, err := l.Accept()
			switch {
			case err == nil:
				k.hold(c)
			case errors.Is(err, net.ErrClosed):
				return
			default:
				time.Sleep(10 * time.Millisecond) // too many files are open
			}
		}
	}()
}

// hold keeps a connection of one who waits, until either side ends it.
func (k *keeping) hold(c net.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		c.Close()
		return
	}
	k.calls[c] = struct{}{}
	go func() {
		_, _ = c.Read(make([]byte, 1))
		c.Close()
		k.mu.Lock()
		delete(k.calls, c)
		k.mu.Unlock()
	}()
}

// release does not wait for others: if the directory is locked for long, the file stays, and is removed by somebody else.
func (k *keeping) release() {
	k.once.Do(func() {
		k.s.mu.Lock()
		delete(k.s.kept, k)
		k.s.mu.Unlock()
		p := k.place
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if p.lock(ctx, &p.kept) == nil {
			p.forget(k.name, k.file)
			if k.bell != nil {
				_ = unix.Unlinkat(int(p.root.Fd()), bellOf(k.key), 0)
			}
			p.unlock(&p.kept)
		}
		k.file.Close()
		if k.bell != nil {
			k.bell.Close()
		}
		k.mu.Lock()
		k.ended = true
		for c := range k.calls {
			c.Close()
		}
		k.mu.Unlock()
		p.leave()
	})
}

// forget removes the file of a key, which we have locked, unless it is another one by now. It needs the lock of the
// directory.
func (p *place) forget(name string, f *os.File) {
	if p.names(name, f) {
		_ = unix.Unlinkat(int(p.kept.dir.Fd()), name, 0)
	}
}

// names reports whether a name in the directory of kept keys is that of an open file.
func (p *place) names(name string, f *os.File) bool {
	var file, named unix.Stat_t
	return again(func() error { return unix.Fstat(int(f.Fd()), &file) }) == nil &&
		again(func() error { return unix.Fstatat(int(p.kept.dir.Fd()), name, &named, unix.AT_SYMLINK_NOFOLLOW) }) == nil &&
		numberOf(&file) == numberOf(&named)
}

// keptIsGone reports whether somebody has removed the file of a key that we keep: others must think then that we are dead.
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

// lookAtKept is how often one who waits looks by itself, and callAgain how often it tries to connect.
const (
	lookAtKept = time.Second
	callAgain  = 10 * time.Millisecond
)

// Unkept waits until nobody keeps a key.
func (s *Store) Unkept(ctx context.Context, key string) error {
	name, bell := nameOf(key, longName), bellOf(key)
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, callAgain) {
		if err := ctx.Err(); err != nil {
			return err
		}
		kept, address, err := s.isKept(name, bell)
		if err != nil || !kept {
			return err
		}
		if waitForEnd(ctx, address) {
			pause = 100 * time.Microsecond // the file is let go at the same moment, or just after
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func (s *Store) isKept(name, bell string) (kept bool, address string, err error) {
	p, err := s.enter()
	if err != nil {
		return false, "", err
	}
	defer p.leave()
	kept, err = p.isKept(name)
	if err == nil && !kept {
		err = p.check()
	}
	return kept, p.address(bell), err
}

func (p *place) isKept(name string) (bool, error) {
	fd, err := openAt(p.kept.dir, name, unix.O_RDONLY, 0)
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
		p.tidy(name, f)
		return false, nil
	case unix.EWOULDBLOCK:
		return true, nil
	default:
		return false, trouble("lock "+filepath.Join(keptDir, name), err)
	}
}

// tidy removes the file of a key that nobody keeps, unless somebody is just about to keep it.
func (p *place) tidy(name string, f *os.File) {
	select {
	case p.kept.turn <- struct{}{}:
	default:
		return
	}
	defer func() { <-p.kept.turn }()
	if flock(p.kept.dir, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	defer flock(p.kept.dir, unix.LOCK_UN)
	if flock(f, unix.LOCK_EX|unix.LOCK_NB) == nil {
		p.forget(name, f)
	}
}

// waitForEnd connects to one who keeps a key, and reports whether the connection broke. It looks at the clock, too.
func waitForEnd(ctx context.Context, address string) bool {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: address, Net: "unix"})
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(lookAtKept))
	defer context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })()
	_, err = c.Read(make([]byte, 1))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// sweep removes what processes that are dead have left. It needs the lock of the directory of kept keys.
func (p *place) sweep(ctx context.Context) {
	p.sweepNotes(ctx)
	names, err := namesIn(p.kept.dir)
	if err != nil {
		return
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return
		}
		if name[0] == '~' {
			c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: p.address(keptDir + "/" + name), Net: "unix"})
			if err == nil {
				c.Close()
			} else if errors.Is(err, unix.ECONNREFUSED) {
				_ = unix.Unlinkat(int(p.kept.dir.Fd()), name, 0)
			}
			continue
		}
		fd, err := openAt(p.kept.dir, name, unix.O_RDONLY, 0)
		if err != nil {
			continue
		}
		f := os.NewFile(uintptr(fd), name)
		if flock(f, unix.LOCK_EX|unix.LOCK_NB) == nil {
			p.forget(name, f)
		}
		f.Close()
	}
}
