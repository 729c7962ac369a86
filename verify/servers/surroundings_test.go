//go:build unix

package servers_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/verify/servers"
)

// hostile are variables that somebody's shell may have, and that servers, their clients, the tool or the go command heed.
var hostile = map[string]string{
	"PGHOST": "nowhere.invalid", "PGPORT": "1", "PGUSER": "nobody", "PGPASSWORD": "wrong", "PGSERVICE": "none",
	"PGDATABASE": "other", "PGOPTIONS": "-c default_transaction_read_only=on", "PGDATA": "/nowhere", "PGTARGETSESSIONATTRS": "standby",
	"MYSQL_HOST": "nowhere.invalid", "MYSQL_PWD": "wrong", "MYSQL_TCP_PORT": "1", "MYSQL_HOME": "/nowhere",
	"REDIS_HOST": "nowhere.invalid", "REDISCLI_AUTH": "wrong", "ETCDCTL_ENDPOINTS": "nowhere.invalid:1", "ETCDCTL_API": "2",
	"ETCD_NAME": "other", "ETCD_DATA_DIR": "/nowhere", "ETCD_LISTEN_CLIENT_URLS": "http://nowhere.invalid:1",
	"JAVA_TOOL_OPTIONS": "-XX:NoSuchOption", "CLASSPATH": "/nowhere", "PYTHONHOME": "/nowhere", "LD_PRELOAD": "",
	"http_proxy": "http://nowhere.invalid:1", "HTTPS_PROXY": "http://nowhere.invalid:1", "NO_PROXY": "example.com",
	"KUBECONFIG": "/nowhere", "KUBERNETES_SERVICE_HOST": "nowhere.invalid", "KUBERNETES_SERVICE_PORT": "1", "NATS_URL": "nats://nowhere.invalid:1",
	"TURNWISE_BACKEND": "etcd://nowhere.invalid:1/", "TURNWISE_TOKEN": "1", "TURNWISE_TOKEN_x": "1", "TURNWISE_NAME": "other",
	"TURNWISE_PROFILE": "other", "TURNWISE_REQUIRE": "failover", "TURNWISE_MODE": "read", "TURNWISE_HOLDS": "line=a&service=b&token=1",
	"TURNWISE_HOLDER": "1", "TURNWISE_HOLDER_FOR": "1", "TURNWISE_SLOT": "2026-11-27T03:00:00Z", "TURNWISE_SHARD": "1", "TURNWISE_SHARDS": "2",
	"XDG_CONFIG_HOME": "/nowhere", "XDG_STATE_HOME": "/nowhere", "GIT_DIR": "/nowhere", "CDPATH": "/", "BASH_ENV": "/nowhere",
	"LANG": "tr_TR.UTF-8", "LC_ALL": "tr_TR.UTF-8", "TZ": "Pacific/Chatham", "GOFLAGS": "-mod=mod -count=2 -race -trimpath",
}

// What the tool's commands read in their environment, or set in that of others, no test may find there by chance.
func TestAllThatTheToolReadsIsHostile(t *testing.T) {
	sources, err := filepath.Glob("../../cmd/turnwise/internal/cli/*.go")
	require.NoError(t, err)
	names := map[string]bool{}
	for _, file := range sources {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, name := range regexp.MustCompile(`"(TURNWISE_[A-Z_]*[A-Z])`).FindAllStringSubmatch(string(text), -1) {
			if !strings.HasSuffix(file, "_test.go") {
				names[name[1]] = true
			}
		}
	}
	assert.Greater(t, len(names), 5, "have they moved?")
	for name := range names {
		assert.Contains(t, hostile, name)
	}
}

// seen marks the child that tells what a test sees.
const seen = "TURNWISE_TEST_SURROUNDINGS"

func TestATestSeesNothingOfTheShell(t *testing.T) {
	if os.Getenv(seen) != "" {
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, nil, 0o644))
		info, err := os.Stat(file)
		require.NoError(t, err)
		said := append(os.Environ(), "umask:"+info.Mode().String(), "zone:"+time.Local.String())
		require.NoError(t, os.WriteFile(os.Getenv(seen), []byte(strings.Join(said, "\n")), 0o600))
		return
	}
	told := filepath.Join(t.TempDir(), "told")
	child := exec.Command("sh", "-c", `umask 077 && exec "$0" "$@"`, os.Args[0], "-test.run", "^"+t.Name()+"$")
	child.Env = append(os.Environ(), seen+"="+told, "HOME="+os.Getenv("HOME"), "JAVA_HOME=/somewhere")
	for name, value := range hostile {
		child.Env = append(child.Env, name+"="+value)
	}
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	text, err := os.ReadFile(told)
	require.NoError(t, err)
	sees := strings.Split(string(text), "\n")
	for name, value := range hostile {
		assert.NotContains(t, sees, name+"="+value)
	}
	assert.NotContains(t, sees, "HOME="+os.Getenv("HOME"))
	for _, v := range []string{
		"PATH=" + os.Getenv("PATH"), "JAVA_HOME=/somewhere", "TURNWISE_SERVERS=" + servers.Folder(), "TZ=UTC", "GOFLAGS=-trimpath",
		"GOPATH=" + os.Getenv("GOPATH"), "umask:-rw-r--r--", "zone:UTC",
	} {
		assert.Contains(t, sees, v)
	}
}

// Those who are not tests start servers, too: what a server sees does not depend on who starts it.
func TestAServerSeesNothingOfTheShell(t *testing.T) {
	for name, value := range hostile {
		if name != "TURNWISE_SERVERS" {
			t.Setenv(name, value)
		}
	}
	t.Setenv("HOME", "/nowhere")
	odd := filepath.Join(t.TempDir(), "it's \"quite\" long; "+strings.Repeat("é", 60))
	require.NoError(t, os.Mkdir(odd, 0o755))
	for name, start := range map[string]func(testing.TB, ...servers.Option) *servers.Cluster{
		"zookeeper": servers.ZooKeeper, "etcd": servers.Etcd, "redis": servers.Redis, "postgres": servers.Postgres,
		"mariadb": servers.MariaDB, "memcached": servers.Memcached,
	} {
		t.Run(name, func(t *testing.T) {
			m := start(t, servers.Dir(odd)).Member(0)
			environ, err := os.ReadFile("/proc/" + strconv.Itoa(m.Pid()) + "/environ")
			if err != nil {
				t.Skip("only Linux tells what a process sees")
			}
			sees := strings.Split(string(environ), "\x00")
			for name := range hostile {
				assert.False(t, slices.ContainsFunc(sees, func(v string) bool { return v == name+"="+hostile[name] }), name)
			}
		})
	}
}
