package servers

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// put makes files in a folder.
func put(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	}
}

func TestWithoutServersTheErrorSaysHowToGetThem(t *testing.T) {
	t.Setenv("TURNWISE_SERVERS", t.TempDir())
	t.Setenv("PATH", "/nowhere")
	_, err := StartZooKeeper(t.Context(), t.TempDir())
	require.ErrorIs(t, err, ErrNotInstalled)
	require.ErrorContains(t, err, "make deps")
}

func TestWithoutKubernetesTheErrorSaysWhatBuildsIt(t *testing.T) {
	t.Setenv("TURNWISE_SERVERS", t.TempDir())
	_, err := StartKube(t.Context(), t.TempDir())
	require.ErrorIs(t, err, ErrNotInstalled)
	require.ErrorContains(t, err, "make test-kube")
}

func TestAServerOnThePathIsNotTaken(t *testing.T) {
	path := t.TempDir()
	put(t, path, map[string]string{"etcd": "#!/bin/sh\nexit 1\n", "redis-server": "#!/bin/sh\nexit 1\n"})
	t.Setenv("PATH", path)
	t.Setenv("TURNWISE_SERVERS", t.TempDir())
	_, err := StartEtcd(t.Context(), t.TempDir())
	assert.ErrorIs(t, err, ErrNotInstalled)
	_, err = StartRedis(t.Context(), t.TempDir())
	assert.ErrorIs(t, err, ErrNotInstalled)
}

func TestAnotherVersionIsRefusedInOneLine(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TURNWISE_SERVERS", folder)
	put(t, folder, map[string]string{"etcd": "", "etcdctl": "", "redis/redis-server": "", ".stamps/etcd": "etcd 3.4.23 recipe 1\n"})
	_, err := StartEtcd(t.Context(), t.TempDir())
	require.NotErrorIs(t, err, ErrNotInstalled, "or its tests would be skipped")
	for _, says := range []string{"3.4.23", versions["etcd"], "make deps", folder} {
		assert.ErrorContains(t, err, says)
	}
	assert.NotContains(t, err.Error(), "\n")
	_, err = Find("etcdctl")
	assert.ErrorContains(t, err, "3.4.23", "it comes with etcd")
	_, err = Find("redis/redis-server")
	assert.ErrorContains(t, err, "no known version", "scripts/deps.sh has not put it there")

	put(t, folder, map[string]string{".stamps/etcd": "etcd any\n", ".stamps/redis": "redis " + versions["redis"] + " recipe 1"})
	for _, name := range []string{"etcd", "redis/redis-server"} {
		_, err = Find(name)
		assert.NoError(t, err)
	}
}

func TestTheVersionsAreThoseThatDepsFetches(t *testing.T) {
	script, err := os.ReadFile("../../scripts/deps.sh")
	require.NoError(t, err)
	build, err := os.ReadFile("etcdbuild/go.mod")
	require.NoError(t, err)
	pins := map[string]string{"etcd": regexp.MustCompile(`go\.etcd\.io/etcd/server/v3 v(\S+)`).FindStringSubmatch(string(build))[1]}
	kube, err := os.ReadFile("kubebuild/go.mod")
	require.NoError(t, err)
	pins["kube-apiserver"] = regexp.MustCompile(`(?m)^require k8s\.io/kubernetes v(\S+)$`).FindStringSubmatch(string(kube))[1]
	nats, err := os.ReadFile("natsbuild/go.mod")
	require.NoError(t, err)
	pins["nats-server"] = regexp.MustCompile(`github\.com/nats-io/nats-server/v2 v(\S+)`).FindStringSubmatch(string(nats))[1]
	variables := map[string]string{}
	for _, m := range regexp.MustCompile(`\b([A-Z_0-9]+)=([0-9][0-9.]*)`).FindAllStringSubmatch(string(script), -1) {
		variables[m[1]] = m[2]
	}
	for _, m := range regexp.MustCompile(`(?m)^\t([a-z0-9.-]+)\) echo \$([A-Z_]+) ;;$`).FindAllStringSubmatch(string(script), -1) {
		pins[m[1]] = variables[m[2]]
	}
	assert.Equal(t, pins, versions)
	said := regexp.MustCompile(`pieces\+?=\(([^)]*)\)`).FindAllStringSubmatch(string(script), -1)
	var pieces []string
	for _, m := range said {
		pieces = append(pieces, strings.Fields(m[1])...)
	}
	slices.Sort(pieces)
	assert.Equal(t, slices.Sorted(maps.Keys(versions)), slices.Compact(pieces))
}

func TestAnOldJavaIsRefused(t *testing.T) {
	home := t.TempDir()
	t.Setenv("JAVA_HOME", home)
	_, err := Java()
	require.ErrorIs(t, err, ErrNotInstalled)

	put(t, home, map[string]string{"bin/java": "", "release": "JAVA_VERSION=\"1.8.0_402\"\n"})
	_, err = Java()
	require.NotErrorIs(t, err, ErrNotInstalled)
	require.ErrorContains(t, err, "1.8.0_402")
	require.ErrorContains(t, err, "11 or newer")

	put(t, home, map[string]string{"release": "IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"17.0.1\"\n"})
	java, err := Java()
	require.NoError(t, err)
	require.Equal(t, filepath.Join(home, "bin", "java"), java)
}
