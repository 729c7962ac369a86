package sharedfile

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// Read calls fn with the newest version, from its beginning; r is also an io.Seeker and an io.ReaderAt. Read takes no
// lock and waits for nobody. What fn reads does not change, however long fn takes. fn must not keep r.
//
// If nobody has written yet it reads what is at the path; if nothing is there, the error is fs.ErrNotExist. The error of fn is returned as it is.
func (f *File) Read(ctx context.Context, fn func(r io.Reader) error) error {
	v, err := f.openNewest(ctx)
	if err != nil {
		return f.failed("read", err)
	}
	defer v.Close()
	st, err := v.Stat()
	if err != nil {
		return f.failed("read", err)
	}
	return fn(io.NewSectionReader(v, 0, st.Size()))
}

// openNewest opens the newest version, and keeps others from removing it. If a newer one comes, the version may be
// removed between the look and the opening: then openNewest looks again.
//
// Whoever may only read can lock all versions, and keep them locked. So nobody waits for such a lock: what is still the newest at
// a second look is opened without.
func (f *File) openNewest(ctx context.Context) (*os.File, error) {
	var locked name // found locked by somebody who wants it alone
	for pause := time.Duration(0); ; pause = min(2*pause+time.Millisecond, 50*time.Millisecond) {
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
		all, err := f.list()
		if err != nil {
			return nil, err
		}
		n, ok := all.newest()
		if !ok || n.kind == empty {
			return f.openPlain()
		}
		v, err := f.open(n)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		// Where versions cannot be locked they are kept for an hour.
		ours, known := lockShared(v)
		if (ours || !known || n == locked) && f.stands(n, v) {
			return v, nil
		}
		v.Close()
		locked = n
	}
}

// stands reports whether an open file still has its name.
func (f *File) stands(n name, v *os.File) bool {
	opened, err1 := v.Stat()
	named, err2 := f.lstat(n)
	return err1 == nil && err2 == nil && os.SameFile(opened, named)
}

func sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d == 0 {
		return err
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
