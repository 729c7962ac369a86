package sharedfile

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
)

// sparedFiles returns what was kept of files that were no versions.
func sparedFiles(t *testing.T, f *File) (all []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(f.dir, sparedPrefix+"*"))
	require.NoError(t, err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		all = append(all, string(text))
	}
	return all
}

func TestAFileThatIsThereAlreadyIsTheFirstVersion(t *testing.T) {
	for name, opts := range map[string][]Option{"link": nil, "copy": {Copy()}} {
		t.Run(name, func(t *testing.T) {
			f := open(t, opts...)
			require.NoError(t, os.WriteFile(f.Path(), []byte("of years"), 0o640))
			assert.Equal(t, "of years", content(t, f), "before anybody has written")
			require.NoError(t, f.Publish(t.Context(), fence.Stamp{Token: 5}, func(w io.Writer) error {
				assert.Equal(t, "of years", content(t, f), "within the first write")
				return text("new")(w)
			}))
			assert.Equal(t, "new", content(t, f))
			kept, err := os.ReadFile(f.at(name2(5, 1)))
			require.NoError(t, err)
			assert.Equal(t, "of years", string(kept))
			st, err := os.Stat(f.Path())
			require.NoError(t, err)
			assert.Equal(t, fs.FileMode(0o440), st.Mode().Perm()&^0o200)
			assert.Empty(t, sparedFiles(t, f))
		})
	}
}

func name2(token coord.Token, n uint64) name { return name{stamp: fence.Stamp{Token: token}, n: n} }

// A write that fails leaves it as it was, and the next one has it still.
func TestAFirstWriteThatFailsLosesNothing(t *testing.T) {
	f := open(t)
	require.NoError(t, os.WriteFile(f.Path(), []byte("of years"), 0o600))
	assert.ErrorIs(t, f.Publish(t.Context(), fence.Stamp{Token: 5}, func(io.Writer) error { return fs.ErrInvalid }), fs.ErrInvalid)
	plain, err := os.ReadFile(f.Path())
	require.NoError(t, err)
	assert.Equal(t, "of years", string(plain))
	assert.Equal(t, "of years", content(t, f))
}

func TestAFileThatSomebodyElsePutsAtThePathIsSpared(t *testing.T) {
	for name, opts := range map[string][]Option{"link": nil, "copy": {Copy()}} {
		t.Run(name, func(t *testing.T) {
			var told []string
			f := open(t, append(opts, Keep(1), Spared(func(kept string) { told = append(told, kept) }))...)
			publish(t, f, 1, "first")
			publish(t, f, 2, "second")
			edited := filepath.Join(t.TempDir(), "edited")
			require.NoError(t, os.WriteFile(edited, []byte("edited"), 0o600))
			require.NoError(t, os.Rename(edited, f.Path()))
			assert.Equal(t, "second", content(t, f))
			publish(t, f, 3, "third")
			plain, err := os.ReadFile(f.Path())
			require.NoError(t, err)
			assert.Equal(t, "third", string(plain))
			assert.Equal(t, []string{"edited"}, sparedFiles(t, f))
			assert.Len(t, told, 1)
			publish(t, f, 4, "fourth")
			assert.Equal(t, []string{"edited"}, sparedFiles(t, f), "versions of ours are not")
			for range 2 * sparedKept {
				require.NoError(t, os.Remove(f.Path()))
				require.NoError(t, os.WriteFile(f.Path(), []byte("again"), 0o600))
				publish(t, f, 5, "fifth")
			}
			assert.Len(t, sparedFiles(t, f), sparedKept)
		})
	}
}
