package sharedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Others may be able to write to the directory of the file, or of the versions. So the versions are reached through their open
// directory, out of which no symbolic link leads, and what is opened has to be a plain file: a pipe would keep us waiting.

var (
	errNoFile      = errors.New("it is no plain file: remove it")
	errNoDirectory = errors.New("it is no directory: remove it")
)

// enter opens the directory of versions.
func (f *File) enter() (*os.Root, error) {
	above, err := os.OpenRoot(filepath.Dir(f.dir))
	if err != nil {
		return nil, err
	}
	defer above.Close()
	named, err := above.Lstat(filepath.Base(f.dir))
	if err == nil && !named.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: f.dir, Err: errNoDirectory}
	}
	var r *os.Root
	if err == nil {
		r, err = above.OpenRoot(filepath.Base(f.dir))
	}
	if err != nil {
		return nil, f.placed(err, "")
	}
	if st, err := r.Stat("."); err != nil || !os.SameFile(named, st) { // a link has taken its place
		r.Close()
		return nil, fs.ErrNotExist
	}
	return r, nil
}

// inside calls do with the open directory of versions.
func (f *File) inside(do func(r *os.Root) error) error {
	r, err := f.enter()
	if err != nil {
		return err
	}
	defer r.Close()
	return do(r)
}

// placed gives an error the whole path instead of a name in the directory.
func (f *File) placed(err error, name string) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return &fs.PathError{Op: p.Op, Path: filepath.Join(f.dir, name), Err: p.Err}
	}
	return err
}

// openDir opens the directory of versions to list or to lock it.
func (f *File) openDir() (d *os.File, err error) {
	err = f.inside(func(r *os.Root) (err error) {
		d, err = r.Open(".")
		return f.placed(err, "")
	})
	return d, err
}

// sync sees to it that the names of versions are on the disk.
func (f *File) sync() error {
	d, err := f.openDir()
	if err != nil {
		return err
	}
	defer d.Close()
	return syncOpen(d)
}

// open opens a version.
func (f *File) open(n name) (v *os.File, err error) {
	err = f.inside(func(r *os.Root) (err error) {
		v, err = plainIn(r, n.String())
		return f.placed(err, n.String())
	})
	return v, err
}

// plainIn opens a plain file, and nothing else.
func plainIn(r *os.Root, name string) (*os.File, error) {
	named, err := r.Lstat(name)
	if err == nil && !named.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errNoFile}
	}
	if err != nil {
		return nil, err
	}
	v, err := r.OpenFile(name, os.O_RDONLY|notWaiting, 0)
	if err != nil {
		return nil, err
	}
	if st, err := v.Stat(); err != nil || !os.SameFile(named, st) { // another has taken its place meanwhile
		v.Close()
		return nil, fs.ErrNotExist
	}
	return v, nil
}

// make makes a file.
func (f *File) make(n name, mode fs.FileMode) (out *os.File, err error) {
	err = f.inside(func(r *os.Root) (err error) {
		out, err = r.OpenFile(n.String(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		return f.placed(err, n.String())
	})
	return out, err
}

func (f *File) lstat(n name) (st fs.FileInfo, err error) {
	err = f.inside(func(r *os.Root) (err error) {
		st, err = r.Lstat(n.String())
		return f.placed(err, n.String())
	})
	return st, err
}

func (f *File) unlink(name string) { _ = f.inside(func(r *os.Root) error { return r.Remove(name) }) }

// link gives a version another name. It succeeds if it has that already: a file system whose answer was lost is asked again.
func (f *File) link(from name, to string) error {
	return f.inside(func(r *os.Root) error {
		err := r.Link(from.String(), to)
		if errors.Is(err, fs.ErrExist) {
			a, err1 := r.Lstat(from.String())
			b, err2 := r.Lstat(to)
			if err1 == nil && err2 == nil && os.SameFile(a, b) {
				return nil
			}
		}
		return err
	})
}

// strange says why a writer refuses what is there already. Where everybody may write, as in /tmp, anybody can have put it
// there, and what is written would be his to read and to replace.
func (f *File) strange(there fs.FileInfo, path string) error {
	above, err := os.Lstat(filepath.Dir(f.path))
	if err != nil || above.Mode().Perm()&0o002 == 0 {
		return err
	}
	owner, _, known := ownersOf(there)
	top, _, _ := ownersOf(above)
	if !known || slices.Contains([]int{0, top, os.Geteuid()}, owner) {
		return nil
	}
	return fmt.Errorf("%w: %s belongs to user %d, and everybody may write to the directory: remove it, or take another directory",
		fs.ErrPermission, path, owner)
}
