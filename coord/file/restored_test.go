//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// Somebody puts a backup back while a lock is held. If it takes the place of the whole directory, nobody is let in before the holder has
// noticed. If the files of registers are put back one by one, whoever comes may enter beside the holder, with a token of before: that is
// why docs say not to. The holder notices all the same.
func TestAHolderNoticesThatABackupWasPutBack(t *testing.T) {
	for how, c := range map[string]struct {
		restore func(t *testing.T, backup, dir string)
		whole   bool
	}{
		"in place": {func(t *testing.T, backup, dir string) {
			copied(t, "-a", filepath.Join(backup, registersDir), dir)
		}, false},
		"as other files": {func(t *testing.T, backup, dir string) {
			copied(t, "-a", "--remove-destination", filepath.Join(backup, registersDir), dir)
		}, false},
		"as another directory": {func(t *testing.T, backup, dir string) {
			if err := errors.Join(os.Rename(dir, dir+".aside"), os.Rename(backup, dir)); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		t.Run(how, func(t *testing.T) {
			dir := filepath.Join(folder(t), "locks")
			lock := func() *coord.Hold { return locked(t, dir, 3*time.Minute) }
			_ = lock().Release()
			copied(t, "-a", dir, dir+".backup")
			for range 3 {
				_ = lock().Release()
			}
			held := lock()
			c.restore(t, dir+".backup", dir)
			other := lock()
			if held.Err() == nil && c.whole {
				t.Error("two hold")
			}
			if other.Token() >= held.Token() {
				t.Errorf("token %d, and %d before: docs say that they come again", other.Token(), held.Token())
			}
			select {
			case <-held.Context().Done():
			case <-time.After(3 * time.Minute):
				t.Fatal("who held before does not notice")
			}
			if !errors.Is(held.Err(), coord.ErrLost) {
				t.Errorf("who held before: %v", held.Err())
			}
		})
	}
}

// locked takes a lock with a client of its own.
func locked(t *testing.T, dir string, patience time.Duration) *coord.Hold {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := Connect(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	hold, err := mutex.New(client, "orders").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return hold
}

// folder is t.TempDir for clients that are closed while a session of theirs ends: what was under way then may still write for a moment.
func folder(t *testing.T) string {
	dir, err := os.MkdirTemp("", "turnwise")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for end := time.Now().Add(time.Minute); os.RemoveAll(dir) != nil && time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond)
		}
	})
	return dir
}

// copied runs cp, or skips the test if it knows no such option.
func copied(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("cp", args...).CombinedOutput(); err != nil {
		t.Skipf("%v: %s", err, out)
	}
}
