package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrNotInstalled says that a server is not on this machine; the error that wraps it says what fetches it.
var ErrNotInstalled = errors.New("not installed")

// onRequest are servers that `make deps` leaves out, since to build them takes minutes.
var onRequest = map[string]bool{"kube-apiserver": true}

// versions are the pieces that scripts/deps.sh fetches, as pinned there.
var versions = map[string]string{
	"zookeeper": "3.8.0", "etcd": "3.7.3", "etcd-3.4": "3.4.23", "curator": "5.4.0", "kazoo": "2.8.0",
	"redis": "7.0.15", "postgres": "15", "pgbouncer": "1.18.0", "mariadb": "10.11", "memcached": "1.6.18",
	"kube-apiserver": "1.37.2", "nats-server": "2.15.2", "prometheus": "2.42.0", "faketime": "0.9.10", "rpm": "4.18.0",
}

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
// `scripts/deps.sh --interop` fetches. It refuses what scripts/deps.sh has not put there, and another version than the tests
// know.
func Find(name string) (string, error) {
	folder := Folder()
	path := filepath.Join(folder, name)
	if _, err := os.Stat(path); err != nil && onRequest[name] {
		return "", fmt.Errorf("%s is %w in %s: `make test-kube` builds it, which takes minutes, once", name, ErrNotInstalled, folder)
	} else if err != nil {
		return "", fmt.Errorf("%s is %w in %s: `make deps` fetches the servers, `bash scripts/deps.sh --interop` also Curator and kazoo",
			name, ErrNotInstalled, folder)
	}
	piece, _, _ := strings.Cut(name, "/")
	if piece == "etcdctl" || piece == "etcdutl" {
		piece = "etcd"
	}
	if is, wanted := stamped(folder, piece), versions[piece]; is != wanted && is != anyVersion {
		return "", fmt.Errorf("%s in %s is %s, and the tests know %s: `make deps` fetches that (to test another one, write \"%s %s\" to %s)",
			piece, folder, is, wanted, piece, anyVersion, stamp(folder, piece))
	}
	return path, nil
}

// anyVersion is stamped on what is tried with the tests on purpose, whatever it is.
const anyVersion = "any"

func stamp(folder, piece string) string { return filepath.Join(folder, ".stamps", piece) }

// stamped returns which version of a piece scripts/deps.sh has left there.
func stamped(folder, piece string) string {
	text, _ := os.ReadFile(stamp(folder, piece))
	if words := strings.Fields(string(text)); len(words) > 1 && words[0] == piece {
		return words[1]
	}
	return "of no known version"
}

// Java returns the Java runtime of this machine: that of JAVA_HOME, or the one on PATH. `make deps` fetches none.
func Java() (string, error) {
	name := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		name = filepath.Join(home, "bin", "java")
	}
	const advice = "put one of version 11 or newer on PATH or set JAVA_HOME"
	java, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("a Java runtime, which ZooKeeper needs, is %w: %s", ErrNotInstalled, advice)
	}
	if is := javaVersion(java); is != "" && major(is) < 11 {
		return "", fmt.Errorf("%s is Java %s, which ZooKeeper does not run on: %s", java, is, advice)
	}
	return java, nil
}

// javaVersion reads the version of a Java runtime from the file beside it, or returns "".
func javaVersion(java string) string {
	real, err := filepath.EvalSymlinks(java)
	if err != nil {
		return ""
	}
	text, _ := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(real)), "release"))
	for line := range strings.Lines(string(text)) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), "JAVA_VERSION="); ok {
			return strings.Trim(version, `"`)
		}
	}
	return ""
}

// major is 1 for Java 8, which calls itself 1.8.
func major(version string) int {
	first, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(first)
	return n
}

func findZooKeeper() (java, classPath string, err error) {
	jars, err := Find("zookeeper")
	if err != nil {
		return "", "", err
	}
	java, err = Java()
	return java, filepath.Join(jars, "*"), err
}

func findEtcd(old bool) (string, error) {
	if old {
		return Find("etcd-3.4/etcd")
	}
	return Find("etcd")
}
