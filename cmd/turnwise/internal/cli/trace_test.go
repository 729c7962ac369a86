//go:build linux || darwin

package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// Where everybody may write, a second name may be somebody's way to have us write to another file of ours.
func TestATraceInACommonDirectoryHasOneName(t *testing.T) {
	dir := t.TempDir()
	plain, other := filepath.Join(dir, "plain"), filepath.Join(dir, "other")
	for _, mode := range []os.FileMode{0o777, 0o777 | os.ModeSticky, 0o755} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if f, err := openTrace(plain); err != nil {
			t.Error(err)
		} else {
			f.Close()
		}
		if err := os.Link(plain, other); err != nil {
			t.Fatal(err)
		}
		f, err := openTrace(other)
		if common := mode.Perm()&0o002 != 0; common != (err != nil) {
			t.Errorf("%v: %v", mode, err)
		}
		if err == nil {
			f.Close()
		}
		os.Remove(other)
	}
}
