package sharedfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
)

// Lock is what writers take turns by: a mutex.Mutex, a rwlock.RWLock, or anything else that gives an exclusive hold.
type Lock interface {
	Lock(ctx context.Context) (*coord.Hold, error)
}

// File is a file that many processes read and write. It holds nothing open, and may be used by any number of goroutines.
type File struct {
	lock  Lock
	path  string // absolute
	dir   string // of the versions
	keep  int
	copy  bool
	epoch uint32

	spared func(kept string)
}

// Option sets up a File. A nil Option changes nothing.
type Option func(*File)

// Keep sets how many of the newest versions are kept: one or more, and three by default. The last writer's number
// counts.
func Keep(n int) Option { return func(f *File) { f.keep = n } }

// Copy has writers put a copy of the newest version at the path, instead of a link. All writers should agree.
func Copy() Option { return func(f *File) { f.copy = true } }

// Epoch sets the number that goes before the tokens of Write. Raise it when the lock moves to another engine: see
// fence.Stamp.
func Epoch(n uint32) Option { return func(f *File) { f.epoch = n } }

// Spared has told called when a writer found a file at the path that is no version, because somebody else put it there; kept is
// where it is now. Nobody reads it.
func Spared(told func(kept string)) Option { return func(f *File) { f.spared = told } }

// Open returns the file at a path. It creates nothing; the first Write does. The lock may be nil if you only Read or
// Publish.
func Open(lock Lock, path string, opts ...Option) (*File, error) {
	f := &File{lock: lock, keep: 3}
	for _, o := range opts {
		if o != nil {
			o(f)
		}
	}
	fail := func(format string, args ...any) (*File, error) {
		return nil, fmt.Errorf("turnwise: open %q: %w", path, fmt.Errorf(format, args...))
	}
	if f.keep < 1 {
		return fail("%w: Keep(%d): at least one version has to stay", coord.ErrInvalid, f.keep)
	}
	if path == "" || os.IsPathSeparator(path[len(path)-1]) {
		return fail("%w: it is not the path of a file", coord.ErrInvalid)
	}
	dir, base := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	dir, err := filepath.EvalSymlinks(dir) // one file by all its names
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return fail("the directory has to be there: %w", err)
	}
	f.path = filepath.Join(dir, base)
	f.dir = f.path + ".versions"
	switch st, err := os.Lstat(f.path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fail("%w", err)
	case st.Mode()&fs.ModeSymlink != 0:
		return fail("%w: it is a symbolic link; name the file that it leads to", coord.ErrInvalid)
	case !st.Mode().IsRegular():
		return fail("%w: it is no plain file", coord.ErrInvalid)
	}
	return f, nil
}

// Path returns where the newest version is for programs that know nothing of this package.
func (f *File) Path() string { return f.path }

// Write takes the lock and writes a new version: what fn writes, if fn returns nil. Until then readers get the version
// before, and fn may Read it as well; nobody else writes meanwhile. fn must not call Write. Writing to w fails once ctx
// or the hold has ended.
//
// It returns nil if the version is there and the lock was held to the end. coord.ErrStale says that a writer with a
// greater token has begun: this version is not there, unless the two met at the same moment and the other has begun
// from it. coord.ErrLost says that the lock was not held to the end: Read tells what is there. Any other error, such as
// fn's own, leaves the file as it was, unless it says otherwise.
func (f *File) Write(ctx context.Context, fn func(w io.Writer) error) error {
	if f.lock == nil {
		return f.failed("write", fmt.Errorf("%w: it was opened without a lock", coord.ErrInvalid))
	}
	return coord.Do(ctx, f.lock.Lock, func(ctx context.Context, h *coord.Hold) error {
		return f.publish(ctx, "write", fence.Stamp{Epoch: f.epoch, Token: h.Token()}, fn)
	})
}

// Publish is Write for a lock that somebody else has taken, such as the parent of this process: s is the stamp of that
// hold. One stamp may publish several versions, one after the other.
func (f *File) Publish(ctx context.Context, s fence.Stamp, fn func(w io.Writer) error) error {
	return f.publish(ctx, "publish", s, fn)
}

func (f *File) failed(op string, err error) error {
	return fmt.Errorf("turnwise: %s %s: %w", op, f.path, err)
}

// list returns what is in the directory of versions. If there is no directory, nothing is in it.
//
// A large directory is not read in one step: what is created and what is removed meanwhile may both be missed, so that
// a name that takes the place of another is not seen at all. So nothing is removed while somebody reads: a reader locks
// the directory for that, and so does a process that removes something. Nobody waits long for such a lock, since its
// owner may be stopped. If its owner is stopped while it removes old names, it keeps others from removing anything, so
// reading without the lock is as good; only where far too much is kept is it removed all the same, which is safe in a
// directory that is read in one step. On NFS other hosts know nothing of the lock, so the directory is read until it
// says the same twice.
func (f *File) list() (all names, err error) {
	all, err = f.listOnce()
	for err == nil {
		before := all
		if all, err = f.listOnce(); err == nil && all.same(before) {
			return all, nil
		}
	}
	return names{}, err
}

func (f *File) listOnce() (names, error) {
	d, err := f.openDir()
	if errors.Is(err, fs.ErrNotExist) {
		return names{}, nil
	}
	if err != nil {
		return names{}, err
	}
	defer d.Close()
	soon(func() (locked, known bool) { return lockShared(d) })
	texts, err := d.Readdirnames(-1)
	return sorted(texts), err
}

// removing calls remove while nobody reads the directory; if that goes on, not at all, or anyway.
func (f *File) removing(anyway bool, remove func()) {
	d, err := f.openDir()
	if err != nil {
		return
	}
	defer d.Close()
	known := true
	if soon(func() (locked, _ bool) { locked, known = lockAlone(d); return locked, known }) || !known || anyway {
		remove()
	}
}

// discard removes a draft of our own, now or when a newer writer comes.
func (f *File) discard(d name) { f.removing(false, func() { f.unlink(d.String()) }) }

// soon tries to lock something for a little while. known is false where there are no locks.
func soon(try func() (locked, known bool)) bool {
	for range 20 {
		locked, known := try()
		if locked || !known {
			return locked
		}
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
	}
	return false
}

func (f *File) at(n name) string { return filepath.Join(f.dir, n.String()) }
