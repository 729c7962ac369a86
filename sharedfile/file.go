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

// Lock is what writers take turns by: a mutex.Mutex, a rwlock.RWLock, or whatever else gives an exclusive hold.
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
}

// Option sets up a File. A nil Option changes nothing.
type Option func(*File)

// Keep is how many of the newest versions are kept: one or more, three without it. The last writer's wish counts.
func Keep(n int) Option { return func(f *File) { f.keep = n } }

// Copy has writers put a copy of the newest version at the path, where they would put a link. All writers should agree.
func Copy() Option { return func(f *File) { f.copy = true } }

// Epoch goes before the tokens of Write. Raise it when the lock moves to another engine: see fence.Stamp.
func Epoch(n uint32) Option { return func(f *File) { f.epoch = n } }

// Open returns the file at a path. It makes nothing; that is for the first Write. The lock may be nil for those who only
// Read or Publish.
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

// Path is where the newest version is for programs that know nothing of this package.
func (f *File) Path() string { return f.path }

// Write takes the lock and writes a new version: what fn writes, if it returns nil. Readers have the version before until
// then, and fn may Read it too; nobody else writes meanwhile. Fn must not Write. Writing to w fails once ctx or the hold has
// ended.
//
// It returns nil if the version is there and the lock was held to the end. coord.ErrStale says that somebody with a greater
// token has begun to write: this version is not there, unless the two met in the same moment and the other has begun from
// it. coord.ErrLost says that the lock was not held to the end: Read tells what is there. Any other error, such as fn's own,
// leaves the file as it was, unless it says otherwise.
func (f *File) Write(ctx context.Context, fn func(w io.Writer) error) error {
	if f.lock == nil {
		return f.failed("write", fmt.Errorf("%w: it was opened without a lock", coord.ErrInvalid))
	}
	return coord.Do(ctx, f.lock.Lock, func(ctx context.Context, h *coord.Hold) error {
		return f.publish(ctx, "write", fence.Stamp{Epoch: f.epoch, Token: h.Token()}, fn)
	})
}

// Publish is Write for those whose lock somebody else has taken, such as the parent of this process: s is what it holds with. A
// stamp may publish several versions, one after the other.
func (f *File) Publish(ctx context.Context, s fence.Stamp, fn func(w io.Writer) error) error {
	return f.publish(ctx, "publish", s, fn)
}

func (f *File) failed(op string, err error) error {
	return fmt.Errorf("turnwise: %s %s: %w", op, f.path, err)
}

// list returns what is in the directory of versions. If there is none, nothing is in it.
//
// A directory is not read in one step if there is much in it: what is made and what is removed meanwhile may both be missed,
// so that one who comes in the place of another is not seen at all. So nothing is removed while somebody reads: he has locked
// the directory for that, as has he who removes something. Nobody waits long for such a lock, since its owner may be stopped.
// One who is stopped while he removes what is old keeps others from removing anything, so that is as good. On NFS other
// hosts know nothing of the lock: so the directory is read until it says the same twice.
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
	d, err := os.Open(f.dir)
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

// removing calls remove while nobody reads the directory, or not at all.
func (f *File) removing(remove func()) {
	d, err := os.Open(f.dir)
	if err != nil {
		return
	}
	defer d.Close()
	known := true
	if soon(func() (locked, _ bool) { locked, known = lockAlone(d); return locked, known }) || !known {
		remove()
	}
}

// drop removes a draft of our own, now or when somebody newer comes.
func (f *File) drop(d name) { f.removing(func() { _ = os.Remove(f.at(d)) }) }

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
