package file

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Processes in containers share a directory with us: they have a boot id of their own, as nspawn and LXC make it, or none.
func TestAContainerClearsNothingBesideUs(t *testing.T) {
	id := filepath.Join(t.TempDir(), "boot_id")
	require.NoError(t, os.WriteFile(id, []byte("11111111-2222-3333-4444-555555555555\n"), 0o600))
	for name, mount := range map[string]string{
		"its own boot id": "mount --bind " + id + " /proc/sys/kernel/random/boot_id",
		"none":            "mount -t tmpfs none /proc/sys/kernel/random",
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := exec.Command("unshare", "-m", "sh", "-c", mount).CombinedOutput(); err != nil {
				t.Skipf("no container can be made: %v: %s", err, out)
			}
			dir := t.TempDir()
			s := open(t, dir)
			before := memory(t, s)
			release, err := s.Keep(t.Context(), "kept")
			require.NoError(t, err)
			defer release()
			for range 2 {
				inside := childProcess("count to 50", dir)
				inside.Args = append([]string{"unshare", "-m", "sh", "-c", mount + ` && exec "$0"`}, inside.Path)
				inside.Path, err = exec.LookPath("unshare")
				require.NoError(t, err)
				out, err := inside.Output()
				require.NoError(t, err, "%s", out)
				require.NoError(t, countIn(dir, 50))
			}
			assert.Equal(t, before.ID, memory(t, s).ID)
			assert.FileExists(t, filepath.Join(dir, keptDir, nameOf("kept")))
		})
	}
}

// The owner of the session is gone, and so is everybody else who had the directory open.
func TestAnotherBootIDClearsNothingBesideAnHeir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	owner := childProcess("leave an heir", dir)
	out, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	heir, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	t.Cleanup(func() { syscall.Kill(heir, syscall.SIGKILL) })
	require.NoError(t, owner.Process.Kill())
	owner.Wait()
	kept, err := os.ReadDir(filepath.Join(dir, keptDir))
	require.NoError(t, err)
	require.NotEmpty(t, kept)
	anotherBoot(t, dir)
	open(t, dir).Close()
	for _, f := range kept {
		if isName(f.Name()) {
			assert.FileExists(t, filepath.Join(dir, keptDir, f.Name()))
		}
	}
}
