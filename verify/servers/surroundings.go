package servers

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Surroundings leaves a process only those variables of its shell that are meant for tests, and gives it an empty home, the C
// locale and UTC, so that a test finds the same wherever it runs. [Main] calls it. remove removes the home.
//
// What stays is what the go command heeds, TURNWISE_SERVERS and the other variables of tests, JAVA_HOME, PATH and TMPDIR.
func Surroundings() (remove func(), err error) {
	if runtime.GOOS == "windows" { // where programs need more, and no server is started
		return func() {}, nil
	}
	own := []string{"LC_ALL=C.UTF-8", "TZ=UTC", "TURNWISE_SERVERS=" + Folder(), "GOFLAGS=" + goFlags(os.Getenv("GOFLAGS"))}
	own = append(own, goFolders()...)
	home, err := os.MkdirTemp("", "turnwise-home-")
	if err != nil {
		return nil, err
	}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !forTests(name) {
			if err := os.Unsetenv(name); err != nil {
				return nil, err
			}
		}
	}
	for _, v := range append(own, "HOME="+home) {
		name, value, _ := strings.Cut(v, "=")
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	time.Local = time.UTC
	usualUmask()
	return func() { _ = os.RemoveAll(home) }, nil
}

// forTests reports whether a variable may reach the tests.
func forTests(name string) bool {
	switch {
	case slices.Contains([]string{"PATH", "TMPDIR", "CC", "CXX", "JAVA_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR"}, name):
		return true
	case strings.HasPrefix(name, "TURNWISE_"):
		return !forTheTool(strings.TrimPrefix(name, "TURNWISE_"))
	}
	return slices.ContainsFunc([]string{"GO", "CGO_", "DOCKER_", "TESTCONTAINERS_"}, func(of string) bool {
		return strings.HasPrefix(name, of)
	})
}

// forTheTool reports whether TURNWISE_ and this is a variable that turnwise itself reads, or sets for others.
func forTheTool(name string) bool {
	return slices.Contains([]string{"BACKEND", "PROFILE", "REQUIRE", "NAME", "MODE", "TOKEN", "HOLDS", "HOLDER", "HOLDER_FOR", "SLOT", "SHARD", "SHARDS"}, name) ||
		strings.HasPrefix(name, "TOKEN_")
}

// goFlags are the flags that say where code comes from and how it is built; others change what is built.
func goFlags(all string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(all), func(flag string) bool {
		name, _, _ := strings.Cut(strings.Trim(flag, `'"`), "=")
		return !slices.Contains([]string{"-buildvcs", "-trimpath", "-modcacherw", "-overlay", "-p"}, name)
	}), " ")
}

// goFolders are where the go command keeps its things, which by default is in the home.
func goFolders() (set []string) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	folders := map[string]string{"GOPATH": filepath.Join(home, "go")}
	if cache, err := os.UserCacheDir(); err == nil {
		folders["GOCACHE"] = filepath.Join(cache, "go-build")
	}
	if config, err := os.UserConfigDir(); err == nil {
		folders["GOENV"] = filepath.Join(config, "go", "env")
	}
	for name, folder := range folders {
		if os.Getenv(name) == "" {
			set = append(set, name+"="+folder)
		}
	}
	return set
}

// environment is what servers and their tools see of ours, whoever starts them.
func environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "HOME=/nonexistent", "LC_ALL=C.UTF-8", "TZ=UTC"}
}
