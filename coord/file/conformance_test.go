//go:build linux || darwin

package file

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storetest"
)

func TestMain(m *testing.M) {
	unix.Umask(0o022) // whatever the shell's is: a directory that everybody may write to is refused
	child()
	storetest.Main(func(dir string) (register.Store, error) { return Open(context.Background(), dir) })
	os.Exit(m.Run())
}

// system is a directory, as the suites want it.
func system(t testing.TB, dir string, opts ...Option) *storetest.System {
	return &storetest.System{
		Open: func(t testing.TB) register.Store {
			s, err := Open(context.Background(), dir, opts...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		},
		Address: dir,
		Forget: func(t testing.TB) {
			err := os.RemoveAll(dir)
			for range 100 { // whoever is amid a write puts a file into a directory that was just emptied
				if err == nil {
					return
				}
				err = os.RemoveAll(dir)
			}
			t.Fatal(err)
		},
		Spoil:  func(t testing.TB, key string) { spoil(t, path(dir, key)) },
		Freeze: func(t testing.TB) func() { return lockAll(t, dir) },
	}
}

// spoil puts one thing or another in the place of a file.
func spoil(t testing.TB, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	var err error
	switch spoils.Add(1) % 4 {
	case 0:
		err = os.WriteFile(path, []byte("hello"), 0o644)
	case 1:
		err = os.Symlink("/etc/hostname", path)
	case 2:
		err = unix.Mkfifo(path, 0o644)
	case 3:
		err = os.Mkdir(path, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

var spoils atomic.Int64

// lockAll locks all directories of registers, as a process would that is stopped at the wrong moment.
func lockAll(t testing.TB, dir string) (unlock func()) {
	var all []*os.File
	paths, err := filepath.Glob(filepath.Join(dir, registersDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(paths, filepath.Join(dir, keptDir)) {
		d, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := flock(d, unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return sync.OnceFunc(func() {
		for _, d := range all {
			d.Close()
		}
	})
}

// places are directories on a disk and in memory.
func places(t testing.TB) map[string]string {
	all := map[string]string{"disk": t.TempDir()}
	if dir, err := os.MkdirTemp("/dev/shm", "turnwise"); err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		all["memory"] = dir
	}
	return all
}

func TestStore(t *testing.T) {
	for name, dir := range places(t) {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t testing.TB) *storetest.System { return system(t, filepath.Join(dir, "locks")) })
		})
	}
}

func TestStoreThatSyncs(t *testing.T) {
	dir := t.TempDir()
	storetest.Run(t, func(t testing.TB) *storetest.System {
		sys := system(t, dir, WithSync())
		sys.Address = "" // it would not sync
		return sys
	})
}

func TestConformance(t *testing.T) {
	drivertest.Run(t, func(t testing.TB) *drivertest.Service { return storetest.Service(t, system(t, t.TempDir())) })
}

func TestRecipes(t *testing.T) {
	drivertest.RunRecipes(t, func(t testing.TB) *drivertest.Service { return storetest.Service(t, system(t, t.TempDir())) })
}
