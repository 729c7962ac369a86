package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ErrNotInstalled says that a server is not on this machine; the error that wraps it says what fetches it.
var ErrNotInstalled = errors.New("not installed")

// Folder is where `make deps` puts the servers.
func Folder() string {
	if dir := os.Getenv("TURNWISE_SERVERS"); dir != "" {
		return dir
	}
	// As scripts/deps.sh does it, so not os.UserCacheDir, which is another folder on macOS.
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache")
	}
	return filepath.Join(cache, "turnwise")
}

// Find returns the path of something in [Folder]: "etcdctl", say, "postgres/psql", or "curator" and "kazoo", which
// `scripts/deps.sh --interop` fetches.
func Find(name string) (string, error) {
	path := filepath.Join(Folder(), name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is %w in %s: `make deps` fetches the servers, `bash scripts/deps.sh --interop` also Curator and kazoo",
			name, ErrNotInstalled, Folder())
	}
	return path, nil
}

func findZooKeeper() (java, classPath string, err error) {
	jars, err := Find("zookeeper")
	if err != nil {
		return "", "", err
	}
	name := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		name = filepath.Join(home, "bin", "java")
	}
	if java, err = exec.LookPath(name); err != nil {
		return "", "", fmt.Errorf("a Java runtime, which ZooKeeper needs, is %w: put java on PATH or set JAVA_HOME", ErrNotInstalled)
	}
	return java, filepath.Join(jars, "*"), nil
}

func findEtcd(old bool) (string, error) {
	if old {
		return Find("etcd-3.4/etcd")
	}
	path, err := Find("etcd")
	if err == nil {
		return path, nil
	}
	if onPath, notOnPath := exec.LookPath("etcd"); notOnPath == nil {
		return onPath, nil
	}
	return "", err
}
