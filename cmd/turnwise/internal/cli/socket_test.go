//go:build linux || darwin

package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheSocketOfAPageIsInAFolderOfTheUserAlone(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing", "turnwise")
	open := t.TempDir()
	require.NoError(t, os.Chmod(open, 0o755))
	fresh := filepath.Join(t.TempDir(), "turnwise")

	socket, err := socketIn([]string{missing, open, fresh}, "files")
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(fresh, "files.serve"), socket)

	_, err = socketIn([]string{missing, open}, "files")
	require.Error(t, err)
	assert.Contains(t, err.Error(), missing)
	assert.Contains(t, err.Error(), open+" is no directory of this user's with mode 0700")
}
