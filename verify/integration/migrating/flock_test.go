//go:build unix

package migrating

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/file"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func flock(ctx context.Context, path string, work work) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close() // unlocks, once no child has the file open
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	return work(ctx, 0)
}

func ourFileMutex(ctx context.Context, dir string, work work) error {
	client, err := file.Connect(ctx, dir)
	if err != nil {
		return err
	}
	defer client.Close()
	return mutex.New(client, "orders").Do(ctx, func(ctx context.Context, h *coord.Hold) error {
		return work(ctx, h.Token())
	})
}

func bothOnFiles(ctx context.Context, path, dir string, work work) error {
	return flock(ctx, path, func(ctx context.Context, _ coord.Token) error {
		return ourFileMutex(ctx, dir, work)
	})
}

func TestBothLocksExcludeOldAndNewOnFiles(t *testing.T) {
	path, dir := filepath.Join(t.TempDir(), "orders.lock"), filepath.Join(t.TempDir(), "locks")
	before := func(ctx context.Context, work work) error { return flock(ctx, path, work) }
	both := func(ctx context.Context, work work) error { return bothOnFiles(ctx, path, dir, work) }
	after := func(ctx context.Context, work work) error { return ourFileMutex(ctx, dir, work) }
	meet(t, before, both, before, both)
	meet(t, both, after, both, after)
}
