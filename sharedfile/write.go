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

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
)

// publish writes a version in these steps. At each of them the process may be killed, or stopped for any length of
// time.
//
//  1. It makes a draft. Its name tells writers with a smaller stamp that a newer one has begun.
//  2. It claims: what was the newest also gets a name with our stamp. What is linked with a smaller stamp from now on
//     is not the newest, and is never read.
//  3. It writes the draft and syncs it.
//  4. It links the draft to its name, and syncs that.
//  5. It looks whether a newer writer has begun. If not, any newer writer will find this version: its draft comes after
//     our link, and it looks for the newest after that. If so, the newer writer may or may not have found it, and we
//     say that we are stale. The version stays all the same: it may be the newest, and others may have removed what was
//     the newest before.
func (f *File) publish(ctx context.Context, op string, s fence.Stamp, fn func(io.Writer) error) (err error) {
	if fn == nil {
		return f.failed(op, fmt.Errorf("%w: the function is nil", coord.ErrInvalid))
	}
	own := false // the error is fn's
	err = func() error {
		if err := s.After(fence.Stamp{}); err != nil {
			return err
		}
		d, out, err := f.begin(s)
		if err != nil {
			return err
		}
		defer f.discard(d)
		defer out.Close()
		if err := f.claim(ctx, s); err != nil {
			return err
		}
		w := &writer{ctx: ctx, to: out}
		if err := fn(w); err != nil {
			own = true
			return err
		}
		if w.err != nil {
			return w.err
		}
		if err := f.settle(ctx, d, out); err != nil {
			return err
		}
		if err := f.refresh(s); err != nil {
			return fmt.Errorf("the new version is written, but not put at the path itself: %w", err)
		}
		return nil
	}()
	f.prune()
	if err != nil && !own {
		return f.failed(op, err)
	}
	return err
}

// writer is a draft for fn. It remembers an error: half of what fn writes is no version, even if fn ignores that a
// write has failed.
type writer struct {
	ctx context.Context
	to  io.Writer
	err error
}

func (w *writer) Write(p []byte) (n int, err error) {
	if w.err == nil && w.ctx.Err() != nil {
		w.err = context.Cause(w.ctx)
	}
	if w.err == nil {
		n, w.err = w.to.Write(p)
	}
	return n, w.err
}

// check returns coord.ErrStale if a writer newer than s has begun.
func (f *File) check(s fence.Stamp) (names, error) {
	all, err := f.list()
	if err == nil {
		err = s.After(all.last())
	}
	return all, err
}

// begin makes a draft, and the directory if there is none.
func (f *File) begin(s fence.Stamp) (name, *os.File, error) {
	if _, err := f.check(s); err != nil {
		return name{}, nil, err
	}
	switch err := os.Mkdir(f.dir, 0o777); {
	case err == nil:
		if err := syncDir(filepath.Dir(f.dir)); err != nil {
			return name{}, nil, err
		}
	case !errors.Is(err, fs.ErrExist):
		return name{}, nil, err
	}
	there, err := os.Lstat(f.dir)
	if err == nil {
		err = f.strange(there, f.dir)
	}
	if err != nil {
		return name{}, nil, err
	}
	return f.draft(s)
}

// draft makes a file that nobody who opens it later may write to. Those may read it who may read what was there before, or if
// nothing was, as many as the process's umask allows.
func (f *File) draft(s fence.Stamp) (name, *os.File, error) {
	before, err := f.before()
	if err != nil {
		return name{}, nil, err
	}
	if before == nil {
		return f.blank(s, 0o444)
	}
	d, out, err := f.blank(s, 0o400)
	if err != nil {
		return d, nil, err
	}
	if err := resemble(out, before, 0); err != nil {
		out.Close()
		f.discard(d)
		return d, nil, err
	}
	return d, out, nil
}

// blank makes the file of a draft.
func (f *File) blank(s fence.Stamp, mode fs.FileMode) (name, *os.File, error) {
	d := name{stamp: s, n: rand.Uint64() >> 1, kind: draft}
	out, err := f.make(d, mode)
	return d, out, err
}

// before returns what is at the path, or if that was removed, the newest version; nil: there is neither.
func (f *File) before() (*rights, error) {
	if there, err := os.Lstat(f.path); err == nil && there.Mode().IsRegular() {
		return rightsAt(f.path, there), f.strange(there, f.path)
	}
	all, err := f.list()
	if n, ok := all.newest(); err == nil && ok && n.kind != empty {
		if there, err := f.lstat(n); err == nil && there.Mode().IsRegular() {
			return rightsAt(f.at(n), there), nil
		}
	}
	return nil, nil
}

// claim gives what was the newest before s a name with the stamp s, unless it has one.
func (f *File) claim(ctx context.Context, s fence.Stamp) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		all, err := f.check(s)
		if err != nil {
			return err
		}
		found, there := all.newest()
		if there && found.stamp == s {
			return nil
		}
		if there && found.kind != empty {
			err = f.claimVersion(s, found)
		} else {
			err = f.adopt(s)
		}
		switch {
		case err == nil, errors.Is(err, fs.ErrExist): // another process with our stamp may have been quicker
		case errors.Is(err, fs.ErrNotExist): // what we found has been removed since: there is a newer one
			if _, gone := os.Stat(f.dir); gone != nil {
				return gone
			}
		default:
			return err
		}
	}
}

func (f *File) create(n name) error {
	made, err := f.make(n, 0o444)
	if err == nil {
		err = made.Close()
	}
	return err
}

// claimVersion makes a claim of a version: a link or, where another user's files may not be linked, a link to a copy.
func (f *File) claimVersion(s fence.Stamp, found name) error {
	to := name{stamp: s, kind: claim}.String()
	err := f.link(found, to)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	v, err := f.open(found)
	if err != nil {
		return err
	}
	defer v.Close()
	d, err := f.duplicate(s, v, 0)
	defer f.discard(d)
	if err != nil {
		return err
	}
	return f.link(d, to)
}

// settle makes the draft a version.
func (f *File) settle(ctx context.Context, d name, out *os.File) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := out.Sync()
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		return err
	}
	for {
		all, err := f.check(d.stamp)
		if err != nil {
			return err
		}
		v := name{stamp: d.stamp, n: 1}
		if n, ok := all.newest(); ok && n.stamp == d.stamp {
			v.n = n.n + 1
		}
		err = f.link(d, v.String())
		if err == nil {
			break
		}
		if errors.Is(err, fs.ErrExist) {
			continue // another process with our stamp was quicker
		}
		if _, stale := f.check(d.stamp); errors.Is(stale, coord.ErrStale) {
			return stale // a newer writer has removed the draft
		}
		return fmt.Errorf("%w (the file system has to have hard links)", err)
	}
	if err := f.sync(); err != nil {
		return err
	}
	_, err = f.check(d.stamp)
	return err
}

// refresh puts the newest version at the path, then looks again whether it is still the newest: a writer that was
// stopped just before puts an older one there, and puts that right when it goes on.
func (f *File) refresh(s fence.Stamp) error {
	for {
		v, err := f.openNewest(context.Background())
		if err != nil {
			return err
		}
		err = f.place(s, v)
		stands := err == nil && f.isNewest(v)
		v.Close()
		switch {
		case errors.Is(err, fs.ErrNotExist): // a newer writer has removed our draft
		case err != nil, stands:
			return err
		}
	}
}

// isNewest reports whether an open version is what readers read now.
func (f *File) isNewest(v *os.File) bool {
	all, err := f.list()
	if err != nil {
		return true // it was when it was opened
	}
	n, _ := all.newest()
	return f.stands(n, v)
}

// place puts a version at the path. It makes a link or a copy under another name, and renames that to the path in one
// step.
func (f *File) place(s fence.Stamp, v *os.File) error {
	opened, err := v.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Lstat(f.path); err == nil && !f.copy && os.SameFile(opened, there) {
		return nil
	}
	d := name{stamp: s, n: rand.Uint64() >> 1, kind: draft}
	if !f.copy {
		of, _ := parse(filepath.Base(v.Name()))
		err = f.link(of, d.String())
	}
	if f.copy || errors.Is(err, fs.ErrPermission) { // another user's
		d, err = f.duplicate(s, v, 0o200)
	}
	defer f.discard(d) // a link is left over if the path has the same file by now
	if err == nil {
		err = f.spare(s)
	}
	if err == nil {
		err = os.Rename(f.at(d), f.path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(f.path))
}

// duplicate makes a draft that is a copy of a version, with more rights for its owner.
func (f *File) duplicate(s fence.Stamp, v *os.File, more fs.FileMode) (name, error) {
	d, out, err := f.blank(s, 0o400)
	if err != nil {
		return d, err
	}
	defer out.Close()
	like, err := rightsOf(v)
	if err != nil {
		return d, err
	}
	if err := copyData(out, v, like.Size()); err != nil {
		return d, err
	}
	if err := resemble(out, like, more); err != nil {
		return d, err
	}
	if err := out.Sync(); err != nil {
		return d, err
	}
	return d, out.Close()
}
