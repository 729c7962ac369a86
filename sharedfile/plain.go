package sharedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnwise/turnwise/fence"
)

// openPlain opens what is at the path.
func (f *File) openPlain() (*os.File, error) {
	above, err := os.OpenRoot(filepath.Dir(f.path))
	if err != nil {
		return nil, err
	}
	defer above.Close()
	plain, err := plainIn(above, filepath.Base(f.path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("nobody has written it yet: %w", fs.ErrNotExist)
	case errors.Is(err, errNoFile):
		return nil, errors.New("it is no plain file")
	}
	return plain, err
}

// adopt is the claim of somebody before whom nobody has written: what is at the path already becomes the first version, so
// that it can be read, and is kept. It is a copy, since others may write to the file itself.
func (f *File) adopt(s fence.Stamp) error {
	plain, err := f.openPlain()
	if errors.Is(err, fs.ErrNotExist) {
		return f.create(name{stamp: s, kind: empty})
	}
	if err != nil {
		return err
	}
	defer plain.Close()
	d, err := f.duplicate(s, plain, 0)
	defer f.discard(d)
	if err != nil {
		return err
	}
	return f.link(d, name{stamp: s, n: 1}.String())
}

// What was at the path and was no version is kept under such a name. The newest ones stay.
const (
	sparedPrefix = "spared."
	sparedKept   = 16
)

// spare keeps what is at the path, and is about to be replaced, if it is no version: an editor may have put it there, or
// sed -i. It is not made a version, because it could be one of ours from long ago: see "The plain path".
func (f *File) spare(s fence.Stamp) error {
	plain, err := f.openPlain()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer plain.Close()
	if f.isVersion(plain) {
		return nil
	}
	d, err := f.duplicate(s, plain, 0)
	defer f.discard(d)
	if err != nil {
		return err
	}
	text := strings.TrimSuffix(name{stamp: s, kind: claim}.String(), "000000") // so they sort by age
	kept := fmt.Sprintf("%s%s%016x", sparedPrefix, text, rand.Uint64())
	if err := f.link(d, kept); err != nil {
		return err
	}
	if f.spared != nil {
		f.spared(filepath.Join(f.dir, kept))
	}
	return f.inside(func(r *os.Root) error {
		entries, _ := fs.ReadDir(r.FS(), ".") // sorted
		entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), sparedPrefix) })
		for len(entries) > sparedKept {
			_ = r.Remove(entries[0].Name())
			entries = entries[1:]
		}
		return nil
	})
}

// isVersion reports whether a file is a version that is still there, or has what one has.
func (f *File) isVersion(plain *os.File) bool {
	st, err := plain.Stat()
	if err != nil {
		return false
	}
	all, err := f.list()
	if err != nil {
		return false
	}
	var alike []name
	for _, n := range all.readable {
		switch there, err := f.lstat(n); {
		case err != nil || n.kind == empty:
		case os.SameFile(there, st):
			return true
		case there.Size() == st.Size():
			alike = append(alike, n)
		}
	}
	return slices.ContainsFunc(alike, func(n name) bool { return f.sameContent(n, plain, st.Size()) })
}

func (f *File) sameContent(n name, with *os.File, size int64) bool {
	v, err := f.open(n)
	if err != nil {
		return false
	}
	defer v.Close()
	return sameData(v, with, size)
}
