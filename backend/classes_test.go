package backend

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/etcd"
	"github.com/turnwise/turnwise/coord/file"
	"github.com/turnwise/turnwise/coord/kube"
	"github.com/turnwise/turnwise/coord/memcached"
	"github.com/turnwise/turnwise/coord/mysql"
	"github.com/turnwise/turnwise/coord/nats"
	"github.com/turnwise/turnwise/coord/postgres"
	"github.com/turnwise/turnwise/coord/redis"
	"github.com/turnwise/turnwise/coord/redis/quorum"
	"github.com/turnwise/turnwise/coord/zk"
	"github.com/turnwise/turnwise/verify/servers"
)

// is fails the test unless an error has that class and no other, and comes at once unless nobody is there.
func is(t *testing.T, class error, open func(ctx context.Context) (*coord.Client, error)) {
	t.Helper()
	limit := 30 * time.Second
	if class == coord.ErrUnavailable {
		limit = time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c, err := open(ctx)
	if err == nil {
		c.Close()
		t.Fatal("it is opened")
	}
	t.Log(err)
	for _, other := range []error{coord.ErrInvalid, coord.ErrMissing, coord.ErrDenied, coord.ErrUnavailable} {
		assert.Equal(t, other == class, errors.Is(err, other), "%v: %v", other, err)
	}
	if class != coord.ErrUnavailable {
		assert.NoError(t, ctx.Err(), "it was tried again until there was no more time")
	}
	if class != coord.ErrDenied {
		assert.NotContains(t, err.Error(), driver.ErrDenied.Error())
	}
	assert.NotContains(t, err.Error(), "sesame")
}

// byURL opens a service by its URL.
func byURL(url string) func(ctx context.Context) (*coord.Client, error) {
	return func(ctx context.Context) (*coord.Client, error) { return Open(ctx, url) }
}

// An address that makes no sense is the caller's mistake, whichever driver gets it, and nobody is asked.
func TestAnAddressThatMakesNoSenseIsInvalid(t *testing.T) {
	for _, url := range []string{
		"nonsense", "", "://h", "consul://h", "etc://h", "zk://", "zk://h:0", "zk://h:99999", "etcd://h:port", "etcd://h,", "redis://h:99999", "redis://a b",
		"redis://h,i:70000,j", "redis://h,i,j/99", "postgres://u@h:99999/d", "postgres://u@h/", "mysql://u@h:x/d", "mysql://u@h", "memcached://h:99999", "memcached://h/path", "nats://h:99999", "nats://h,i", "nats://h?monitor=h:1", "nats://h?root=a.b",
		"kube://a,b", "kube://A", "kube://a?server=h:6443", "kube://a?server=https://h:99999", "kube://a?kubeconfig=/nowhere",
		"file://host/path", "file:///a%00b", "file:///%zz", "file:///" + strings.Repeat("x", 300),
	} {
		t.Run(url, func(t *testing.T) { is(t, coord.ErrInvalid, byURL(url)) })
	}
	type open = func(ctx context.Context, address string) (*coord.Client, error)
	for name, connect := range map[string]open{
		"zk": func(ctx context.Context, a string) (*coord.Client, error) { return zk.Connect(ctx, []string{a}) },
		"etcd": func(ctx context.Context, a string) (*coord.Client, error) {
			return etcd.Connect(ctx, clientv3.Config{Endpoints: []string{a}})
		},
		"redis": func(ctx context.Context, a string) (*coord.Client, error) { return redis.Connect(ctx, a) },
		"quorum": func(ctx context.Context, a string) (*coord.Client, error) {
			return quorum.Connect(ctx, []string{"127.0.0.1:1", a, "127.0.0.1:2"})
		},
		"postgres": func(ctx context.Context, a string) (*coord.Client, error) {
			return postgres.Connect(ctx, "postgres://u@"+a+"/d")
		},
		"mysql": func(ctx context.Context, a string) (*coord.Client, error) {
			return mysql.Connect(ctx, "mysql://u@"+a+"/d")
		},
		"mysql, by a DSN": func(ctx context.Context, a string) (*coord.Client, error) {
			return mysql.Connect(ctx, "u@tcp("+a+")/d")
		},
		"memcached": func(ctx context.Context, a string) (*coord.Client, error) { return memcached.Connect(ctx, a) },
		"nats":      func(ctx context.Context, a string) (*coord.Client, error) { return nats.Connect(ctx, a) },
		"kube": func(ctx context.Context, a string) (*coord.Client, error) {
			return kube.Connect(ctx, "default", kube.WithServer("https://"+a))
		},
	} {
		for _, address := range []string{"127.0.0.1:99999", "127.0.0.1:no-such-port", "127.0.0.1:1:2"} {
			t.Run(name+" "+address, func(t *testing.T) {
				is(t, coord.ErrInvalid, func(ctx context.Context) (*coord.Client, error) { return connect(ctx, address) })
			})
		}
	}
	for name, open := range map[string]func(ctx context.Context) (*coord.Client, error){
		"zk without servers":     func(ctx context.Context) (*coord.Client, error) { return zk.Connect(ctx, nil) },
		"etcd without endpoints": func(ctx context.Context) (*coord.Client, error) { return etcd.Connect(ctx, clientv3.Config{}) },
		"a quorum of none":       func(ctx context.Context) (*coord.Client, error) { return quorum.Connect(ctx, nil) },
		"a file without a name":  func(ctx context.Context) (*coord.Client, error) { return file.Connect(ctx, "") },
		"memcached without a port": func(ctx context.Context) (*coord.Client, error) {
			return memcached.Connect(ctx, "127.0.0.1")
		},
		"kube outside of a pod": func(ctx context.Context) (*coord.Client, error) { return kube.Connect(ctx, "default") },
	} {
		t.Run(name, func(t *testing.T) { is(t, coord.ErrInvalid, open) })
	}
}

// A database or a directory that is not there has a class of its own: nobody has denied anything.
func TestWhatIsNotThereIsMissing(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	var several []string
	for _, a := range servers.Redis(t, servers.Members(3), servers.AppendOnly("always")).Addrs() {
		several = append(several, "redis://"+a+"/99")
	}
	for name, url := range map[string]string{
		"no directory above": "file://" + t.TempDir() + "/no/such/locks",
		"a file":             "file://" + plain,
		"a directory in one": "file://" + plain + "/locks",
		"a number of Redis":  "redis://" + servers.Redis(t, servers.Shared()).Addrs()[0] + "/99",
		"postgres":           renamed(servers.Postgres(t, servers.Shared()).URL()),
		"mysql":              renamed(servers.MariaDB(t, servers.Shared()).URL()),
	} {
		t.Run(name, func(t *testing.T) { is(t, coord.ErrMissing, byURL(url)) })
	}
	t.Run("a number of several", func(t *testing.T) {
		is(t, coord.ErrMissing, func(ctx context.Context) (*coord.Client, error) { return quorum.Connect(ctx, several) })
	})
}

// onKube is the URL of a namespace, by the token of a user.
func onKube(t *testing.T, c *servers.Cluster, namespace, token, more string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
	return "kube://" + namespace + "?server=" + c.URL() + "&ca=" + c.KubeCA() + "&token-file=" + file + more
}

// What no other service has: a right that is lacking is denied, a namespace that is not there is missing.
func TestWhatKubernetesRefusesHasItsClass(t *testing.T) {
	c := servers.Kube(t, servers.Shared())
	t.Run("missing", func(t *testing.T) { is(t, coord.ErrMissing, byURL(onKube(t, c, "nowhere", servers.KubeAdmin, ""))) })
	t.Run("no right", func(t *testing.T) {
		is(t, coord.ErrDenied, byURL(onKube(t, c, "default", servers.KubeToken("one"), "")))
	})
	t.Run("a wrong token", func(t *testing.T) { is(t, coord.ErrDenied, byURL(onKube(t, c, "default", "sesame", ""))) })
}

// renamed is a URL with another database.
func renamed(url string) string {
	before, params, _ := strings.Cut(url, "?")
	before = before[:strings.LastIndexByte(before, '/')] + "/nowhere"
	if params != "" {
		before += "?" + params
	}
	return before
}

// A wrong password is denied by each service that knows passwords.
func TestAWrongPasswordIsDenied(t *testing.T) {
	secret := servers.Password("open sesame")
	withPassword := func(url string) string { // none of the servers' own
		scheme, rest, _ := strings.Cut(url, "://")
		if _, after, ok := strings.Cut(rest, "@"); ok {
			rest = after
		}
		return scheme + "://" + rest
	}
	user := func(name, url string) string {
		return strings.Replace(withPassword(url), "://", "://"+name+":wrong@", 1)
	}
	for name, url := range map[string]string{
		"redis":           "redis://:wrong@" + servers.Redis(t, secret).Addrs()[0],
		"quorum":          "redis://:wrong@" + strings.Join(servers.Redis(t, secret, servers.Members(3), servers.AppendOnly("always")).Addrs(), ","),
		"postgres":        user("postgres", servers.Postgres(t, secret).URL()),
		"mysql":           user("root", servers.MariaDB(t, secret).URL()),
		"etcd":            "etcd://root:wrong@" + guardedEtcd(t),
		"nats":            "nats://us:wrong@" + servers.NATS(t, servers.Config(`authorization { user: us, password: "open sesame" }`)).Addrs()[0],
		"nats by a token": "nats://:wrong@" + servers.NATS(t, servers.Config(`authorization { token: "open sesame" }`)).Addrs()[0],
		"zk":              "zk://us:wrong@" + guardedZooKeeper(t) + "/guarded",
	} {
		t.Run(name, func(t *testing.T) { is(t, coord.ErrDenied, byURL(url)) })
	}
}

func guardedEtcd(t *testing.T) string {
	t.Helper()
	address := servers.Etcd(t).Addrs()[0]
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, DialTimeout: 10 * time.Second})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.UserAdd(t.Context(), "root", "open sesame")
	require.NoError(t, err)
	_, err = c.UserGrantRole(t.Context(), "root", "root")
	require.NoError(t, err)
	_, err = c.AuthEnable(t.Context())
	require.NoError(t, err)
	return address
}

func guardedZooKeeper(t *testing.T) string {
	t.Helper()
	address := servers.ZooKeeper(t, servers.Shared()).Addrs()[0]
	conn, _, err := gozk.Connect([]string{address}, 10*time.Second, gozk.WithLogInfo(false))
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Create("/guarded", nil, 0, gozk.DigestACL(gozk.PermAll, "us", "open sesame"))
	require.NoError(t, err)
	return address
}

// deserted returns an address at which nobody listens. No other process gets it meanwhile, since a connection begins there.
func deserted(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c.LocalAddr().String()
}

// Where nobody answers, nothing is known.
func TestWhereNobodyAnswersTheServiceIsOutOfReach(t *testing.T) {
	address := deserted(t)
	for _, url := range []string{"zk://%", "etcd://%", "redis://%", "redis://%,127.0.0.1:1,127.0.0.1:2", "postgres://u@%/d", "mysql://u@%/d", "memcached://%", "nats://%", "kube://default?server=https://%"} {
		t.Run(url, func(t *testing.T) { is(t, coord.ErrUnavailable, byURL(strings.Replace(url, "%", address, 1))) })
	}
}
