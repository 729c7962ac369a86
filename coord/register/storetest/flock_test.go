//go:build unix

package storetest

import (
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/attempt"
	"github.com/turnwise/turnwise/internal/memory"
)

// flock keeps keys by flock(2), so that other processes can keep them as well. Its registers are in this process.
type flock struct {
	*memory.Store
	dir     string
	inherit bool // a flaw: the open file outlives the process in its children
}

func openFlock(dir string) (register.Store, error) {
	return &flock{Store: memory.NewStore(), dir: dir, inherit: filepath.Base(dir) == "inherit"}, nil
}

func (f *flock) lock(key string, how int) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(f.dir, hex.EncodeToString([]byte(key))), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, register.ErrConflict
	}
	return file, nil
}

func (f *flock) Keep(ctx context.Context, key string) (release func(), err error) {
	file, err := f.lock(key, syscall.LOCK_EX)
	if err != nil {
		return nil, err
	}
	if f.inherit {
		flags, _, _ := syscall.Syscall(syscall.SYS_FCNTL, file.Fd(), syscall.F_GETFD, 0)
		_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, file.Fd(), syscall.F_SETFD, flags&^syscall.FD_CLOEXEC)
	}
	return sync.OnceFunc(func() { _ = file.Close() }), nil
}

func (f *flock) Unkept(ctx context.Context, key string) error {
	for {
		file, err := f.lock(key, syscall.LOCK_SH)
		if err == nil {
			return file.Close()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func flockSystem(t testing.TB, name string) *System {
	dir := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return &System{
		Open: func(t testing.TB) register.Store {
			store, err := openFlock(dir)
			if err != nil {
				t.Fatal(err)
			}
			return store
		},
		Ages: true, Address: dir,
	}
}

func TestAKeyIsKeptInAnotherProcess(t *testing.T) {
	find(t, "12 a process that is killed keeps nothing").show(t, flockSystem(t, "good"))
}

func TestSuiteCatchesAKeepingThatOutlivesItsProcess(t *testing.T) {
	t.Setenv(attempt.PatienceVariable, "3s")
	a := attempt.Play(t, func(t testing.TB) {
		find(t, "12 a process that is killed keeps nothing").play(t, flockSystem(t, "inherit"))
	})
	if !a.Failed() {
		t.Errorf("not caught (skipped: %q)", a.WhySkipped())
	}
}
