package file

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// onWrite does something whenever it is written to.
type onWrite func()

func (f onWrite) Write(b []byte) (int, error) { f(); return len(b), nil }

// Another user of the disk leaves room for one file just when a session begins: for the one that is locked, and not for the pipe that
// heirs are to get. Whoever inherits a session could then unlock it.
func TestWhoFillsTheDiskGivesNoHeirTheKey(t *testing.T) {
	top := mounted(t, "size=4m,nr_inodes=500,mode=1777")
	dir := filepath.Join(top, "locks")
	_ = locked(t, dir, 10*time.Second).Release() // so that there are registers, and spare files
	disk, err := os.Open(top)
	require.NoError(t, err)
	defer disk.Close()
	var his []string
	makeRoom := func(left int) {
		for ; len(his) > left; his = his[:len(his)-1] {
			require.NoError(t, unix.Unlinkat(int(disk.Fd()), his[len(his)-1], 0))
		}
	}
	// He makes room again at the worst moment, which our log shows here.
	log := slog.New(slog.NewTextHandler(onWrite(func() { makeRoom(0) }), nil))
	client, err := Connect(t.Context(), dir, WithLogger(log))
	require.NoError(t, err)
	defer client.Close()
	storecheck.AsUser(t, 12345, func() {
		for {
			name := fmt.Sprint("his", len(his))
			fd, err := unix.Openat(int(disk.Fd()), name, unix.O_CREAT|unix.O_WRONLY, 0o600)
			if err != nil {
				require.ErrorIs(t, err, unix.ENOSPC)
				break
			}
			unix.Close(fd)
			his = append(his, name)
		}
		makeRoom(len(his) - 1)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	hold, err := mutex.New(client, "line").Lock(ctx)
	if err != nil { // so nobody inherits anything
		require.ErrorIs(t, err, unix.ENOSPC)
		return
	}
	files, err := Descriptors(client)
	require.NoError(t, err)
	for _, f := range files {
		inherited, err := unix.Dup(int(f.Fd()))
		require.NoError(t, err)
		_ = unix.Flock(inherited, unix.LOCK_UN)
		require.NoError(t, unix.Close(inherited))
	}
	other, err := Connect(t.Context(), dir)
	require.NoError(t, err)
	defer other.Close()
	soon, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	_, err = mutex.New(other, "line").Lock(soon)
	require.ErrorIs(t, err, coord.ErrBusy, "let in beside the owner")
	require.NoError(t, hold.Err())
	require.NoError(t, hold.Release())
}
