//go:build linux || darwin

package sharedfile

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A new version can be read by those who could read the one before, and belongs to whom that belonged to.
func TestANewVersionKeepsOwnerAndRightsToRead(t *testing.T) {
	for _, copies := range []bool{false, true} {
		for mode, want := range map[os.FileMode]os.FileMode{0o600: 0o400, 0o640: 0o440, 0o755: 0o555, 0o644: 0o444} {
			f := open(t)
			f.copy = copies
			require.NoError(t, os.WriteFile(f.Path(), []byte("made by hand"), 0o600))
			require.NoError(t, os.Chmod(f.Path(), mode))
			root := os.Geteuid() == 0
			if root {
				require.NoError(t, os.Chown(f.Path(), 4711, 4712))
			}
			check := func() {
				t.Helper()
				st, err := os.Lstat(f.Path())
				require.NoError(t, err)
				assert.Equal(t, want, st.Mode().Perm()&^0o200)
				all, err := os.ReadDir(f.dir)
				require.NoError(t, err)
				for _, e := range all {
					version, err := e.Info()
					if assert.NoError(t, err) && version.Size() > 0 {
						assert.Equal(t, want, version.Mode().Perm())
					}
				}
				if user, group, _ := ownersOf(st); root {
					assert.Equal(t, []int{4711, 4712}, []int{user, group})
				}
			}
			publish(t, f, 1, "first")
			check()
			publish(t, f, 2, "second")
			check()
			require.NoError(t, os.Remove(f.Path()))
			publish(t, f, 3, "third")
			check()
		}
	}
}
