//go:build linux || darwin

package sharedfile

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
)

const stranger = 12346

// dirLike is a directory with a mode in which stranger has put things.
func dirLike(t *testing.T, mode os.FileMode) string {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, mode))
	return dir
}

// soonDone calls what should neither hang nor succeed, and returns its error.
func soonDone(t *testing.T, what func(ctx context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- what(ctx) }()
	select {
	case err := <-done:
		assert.NoError(t, ctx.Err(), "it took until its context ended")
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("it hangs, also past the end of its context")
		return nil
	}
}

// Whoever may write to the directory can put there what he likes. It leads nobody elsewhere, neither to read nor to make and to
// remove files.
func TestALinkInThePlaceOfTheVersionsLeadsNowhereElse(t *testing.T) {
	for _, mode := range []os.FileMode{0o700, 0o777 | os.ModeSticky} {
		dir, elsewhere := dirLike(t, mode), t.TempDir()
		for token := range coord.Token(9) {
			n := name{stamp: fence.Stamp{Token: token + 1}, n: 1}
			require.NoError(t, os.WriteFile(filepath.Join(elsewhere, n.String()), []byte("precious"), 0o600))
		}
		before, err := os.ReadDir(elsewhere)
		require.NoError(t, err)
		f, err := Open(nil, filepath.Join(dir, "file"))
		require.NoError(t, err)
		require.NoError(t, os.Symlink(elsewhere, f.dir))
		publishing := soonDone(t, func(ctx context.Context) error { return f.Publish(ctx, fence.Stamp{Token: 100}, text("x")) })
		assert.ErrorIs(t, publishing, errNoDirectory)
		assert.ErrorContains(t, publishing, f.dir)
		assert.ErrorIs(t, soonDone(t, func(ctx context.Context) error { return f.Read(ctx, func(io.Reader) error { return nil }) }), errNoDirectory)
		after, err := os.ReadDir(elsewhere)
		require.NoError(t, err)
		assert.Len(t, after, len(before), "what lies elsewhere is as it was")
		assert.NoFileExists(t, f.Path())
	}
}

// What has the name of a version and is something else is neither read nor waited for.
func TestWhatIsNoPlainFileIsNoVersion(t *testing.T) {
	for what, put := range map[string]func(path, elsewhere string) error{
		"a link":   func(path, elsewhere string) error { return os.Symlink(elsewhere, path) },
		"a pipe":   func(path, _ string) error { return syscall.Mkfifo(path, 0o666) },
		"a folder": func(path, _ string) error { return os.Mkdir(path, 0o777) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := dirLike(t, 0o700)
			secret := filepath.Join(t.TempDir(), "secret")
			require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
			f, err := Open(nil, filepath.Join(dir, "file"))
			require.NoError(t, err)
			publish(t, f, 1, "first")
			require.NoError(t, put(f.at(name{stamp: fence.Stamp{Token: 5}, n: 1}), secret))
			assert.ErrorContains(t, soonDone(t, func(ctx context.Context) error { return f.Read(ctx, func(io.Reader) error { return nil }) }), errNoFile.Error())
			_ = soonDone(t, func(ctx context.Context) error { return f.Publish(ctx, fence.Stamp{Token: 6}, text("next")) })
			all, err := os.ReadDir(f.dir)
			require.NoError(t, err)
			for _, e := range all {
				if e.Type().IsRegular() {
					has, err := os.ReadFile(filepath.Join(f.dir, e.Name()))
					require.NoError(t, err)
					assert.NotEqual(t, "secret", string(has), e.Name())
				}
			}
		})
	}
}

// Where everybody may write, as in /tmp, a stranger may have been there first. What is written would be his.
func TestWhatAStrangerHasPutThereIsNotWrittenTo(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files to others")
	}
	for what, put := range map[string]func(f *File) string{
		"the versions": func(f *File) string {
			require.NoError(t, os.Mkdir(f.dir, 0o777))
			return f.dir
		},
		"the file": func(f *File) string {
			require.NoError(t, os.WriteFile(f.path, nil, 0o666))
			return f.path
		},
	} {
		t.Run(what, func(t *testing.T) {
			for mode, refused := range map[os.FileMode]bool{0o777 | os.ModeSticky: true, 0o777: true, 0o2775: false, 0o755: false} {
				f, err := Open(nil, filepath.Join(dirLike(t, mode), "file"))
				require.NoError(t, err)
				path := put(f)
				publish := func(token coord.Token) error {
					return f.Publish(t.Context(), fence.Stamp{Token: token}, text("secret"))
				}
				require.NoError(t, os.Chown(path, stranger, stranger))
				if err := publish(1); refused {
					assert.ErrorIs(t, err, fs.ErrPermission)
					assert.ErrorContains(t, err, path+" belongs to user 12346")
				} else {
					assert.NoError(t, err, "all who may write here trust each other")
				}
				require.NoError(t, os.Chown(path, 0, 0))
				assert.NoError(t, publish(2))
			}
		})
	}
}

// Whoever may only read the versions can lock each of them, also for himself alone, and keep it locked. Nobody waits for that.
func TestWhoLocksWhatHeMayReadKeepsNobodyWaiting(t *testing.T) {
	f, err := Open(nil, filepath.Join(dirLike(t, 0o755), "file"))
	require.NoError(t, err)
	lockAll := func() {
		all, err := os.ReadDir(f.dir)
		require.NoError(t, err)
		for _, e := range all {
			v, err := os.Open(filepath.Join(f.dir, e.Name()))
			require.NoError(t, err)
			t.Cleanup(func() { v.Close() })
			_, known := lockAlone(v)
			require.True(t, known)
		}
	}
	publish(t, f, 1, "first")
	lockAll()
	has := ""
	read := func(ctx context.Context) error {
		return f.Read(ctx, func(r io.Reader) error {
			b, err := io.ReadAll(r)
			has = string(b)
			return err
		})
	}
	assert.NoError(t, soonDone(t, read))
	assert.Equal(t, "first", has)
	assert.NoError(t, soonDone(t, func(ctx context.Context) error {
		return f.Publish(ctx, fence.Stamp{Token: 2}, func(w io.Writer) error {
			lockAll() // what is being written, too
			return text("second")(w)
		})
	}))
	assert.NoError(t, soonDone(t, read))
	assert.Equal(t, "second", has)
	plain, err := os.ReadFile(f.Path())
	require.NoError(t, err)
	assert.Equal(t, "second", string(plain))
}
