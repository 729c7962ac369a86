package servers

import (
	"errors"
	"os"
	"path/filepath"
)

const (
	scratchPrefix = "turnwise-scratch-"
	scratchLock   = ".lock"
	ample         = 4 << 30 // bytes; every etcd sets 128 MB aside for its log
)

// Scratch makes a folder for what need not outlive this process. It is in memory if there is ample room: a busy disk
// can keep a server waiting for longer than a session lasts. The next process that calls Scratch removes what a killed one
// left behind.
func Scratch() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(scratchParent(), scratchPrefix)
	if err != nil {
		return "", nil, err
	}
	lock, err := lockScratch(dir)
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, err
	}
	removeAbandoned(filepath.Dir(dir))
	return dir, func() {
		_ = os.RemoveAll(dir)
		_ = lock.Close()
	}, nil
}

func scratchParent() string {
	const memory = "/dev/shm"
	if roomIn(memory) >= ample {
		return memory
	}
	return os.TempDir()
}

// lockScratch marks a folder as in use. The kernel drops the lock when we die. The file gets its name only once it is
// locked, so that nobody finds it unlocked.
func lockScratch(dir string) (*os.File, error) {
	lock, err := os.CreateTemp(dir, "lock-")
	if err != nil {
		return nil, err
	}
	err = errors.Join(lockFile(lock), os.Rename(lock.Name(), filepath.Join(dir, scratchLock)))
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	return lock, nil
}

func removeAbandoned(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, scratchPrefix+"*"))
	for _, dir := range dirs {
		lock, err := os.Open(filepath.Join(dir, scratchLock))
		if err != nil {
			continue // not locked yet, or not ours
		}
		if tryLockFile(lock) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = lock.Close()
	}
}
