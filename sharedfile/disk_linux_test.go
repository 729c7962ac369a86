package sharedfile

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/fence"
)

// smallDisk is a file system of its own, in memory.
func smallDisk(t *testing.T, options string) string {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("only root can mount a file system: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func TestAFullDiskChangesNothing(t *testing.T) {
	f, err := Open(nil, filepath.Join(smallDisk(t, "size=1m"), "file"), Keep(1))
	require.NoError(t, err)
	publish(t, f, 1, "first")
	err = f.Publish(t.Context(), fence.Stamp{Token: 2}, text(strings.Repeat("x", 2<<20)))
	assert.ErrorIs(t, err, syscall.ENOSPC)
	assert.Equal(t, "first", content(t, f))
	err = f.Publish(t.Context(), fence.Stamp{Token: 3}, func(w io.Writer) error {
		_ = text(strings.Repeat("x", 2<<20))(w) // it does not look
		return nil
	})
	assert.ErrorIs(t, err, syscall.ENOSPC)
	assert.Equal(t, "first", content(t, f))
	publish(t, f, 4, "second")
	assert.Equal(t, []string{"0.4.1"}, entries(t, f))

	// A copy for the path finds no room.
	f, err = Open(nil, f.path, Keep(1), Copy())
	require.NoError(t, err)
	large := strings.Repeat("y", 600<<10)
	err = f.Publish(t.Context(), fence.Stamp{Token: 5}, text(large))
	assert.ErrorIs(t, err, syscall.ENOSPC)
	assert.ErrorContains(t, err, "the new version is written, but not put at the path itself")
	assert.Equal(t, large, content(t, f))
	plain, err := os.ReadFile(f.Path())
	require.NoError(t, err)
	assert.Equal(t, "second", string(plain), "as it was")
}

func TestADiskWithoutRoomForAnotherFileChangesNothing(t *testing.T) {
	f, err := Open(nil, filepath.Join(smallDisk(t, "nr_inodes=6"), "file"))
	require.NoError(t, err)
	publish(t, f, 1, "first")
	for err == nil {
		err = f.Publish(t.Context(), fence.Stamp{Token: 2}, text("second"))
	}
	assert.ErrorIs(t, err, syscall.ENOSPC)
	assert.Contains(t, []string{"first", "second"}, content(t, f))
}
