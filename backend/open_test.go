package backend

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// On each service, a client that knows only the URL locks out another one that does.
func TestEachServiceByItsURL(t *testing.T) {
	plain := func(start func(testing.TB, ...servers.Option) *servers.Cluster, scheme, rest string, opts ...servers.Option) func(*testing.T) string {
		return func(t *testing.T) string {
			return scheme + "://" + strings.Join(start(t, opts...).Addrs(), ",") + rest
		}
	}
	for name, at := range map[string]func(*testing.T) string{
		"file":   func(t *testing.T) string { return "file://" + t.TempDir() + "/locks?sync=yes" },
		"zk":     plain(servers.ZooKeeper, "zk", "/shop?session=4s"),
		"etcd":   plain(servers.Etcd, "etcd", "/shop?session=4s"),
		"redis":  plain(servers.Redis, "redis", "/1?root=shop&session=4s&longest-session=4s"),
		"quorum": plain(servers.Redis, "redis", "?session=4s&longest-session=4s", servers.Members(3), servers.AppendOnly("always")),
		"postgres": func(t *testing.T) string {
			return servers.Postgres(t).URL() + "&session=4s&longest-session=4s&table=shop"
		},
		"mysql": func(t *testing.T) string {
			return servers.MariaDB(t).URL() + "?session=4s&longest-session=4s&table=shop"
		},
		"memcached": plain(servers.Memcached, "memcached", "?root=shop&session=4s&longest-session=4s", servers.Flags("-M")),
		"nats":      plain(servers.NATS, "nats", "?root=shop&session=4s&longest-session=4s"),
		"kube": func(t *testing.T) string {
			return onKube(t, servers.Kube(t, servers.Shared()), "default", servers.KubeAdmin, "&root=shop&session=4s&longest-session=4s")
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := at(t)
			t.Log(url)
			first, err := Open(t.Context(), url, WithClient(coord.WithOwnerLabel("first"), coord.WithTurnNotes()))
			require.NoError(t, err)
			defer first.Close()
			second, err := Open(t.Context(), url)
			require.NoError(t, err)
			defer second.Close()
			h, err := mutex.New(first, "orders/42").Lock(t.Context())
			require.NoError(t, err)
			_, err = mutex.New(second, "orders/42").TryLock(t.Context())
			assert.ErrorIs(t, err, coord.ErrBusy)
			assert.ErrorContains(t, err, `"first"`)
			if elsewhere := strings.Replace(url, "shop", "other", 1); elsewhere != url {
				other, err := Open(t.Context(), elsewhere)
				require.NoError(t, err)
				defer other.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // a new memory begins with a pause
				defer cancel()
				own, err := mutex.New(other, "orders/42").Lock(ctx)
				require.NoError(t, err, "the same line in another part of the service is another")
				require.NoError(t, own.Release())
			}
			require.Eventually(t, func() bool {
				line, err := second.Line(t.Context(), "orders/42")
				return err == nil && len(line) == 1 && line[0].Turn.After(time.Now().Add(-time.Minute)) && line[0].Data == nil
			}, 20*time.Second, 50*time.Millisecond, "it says since when it holds")
			require.NoError(t, h.Release())
		})
	}
}

func TestPostgresIsAskedToPoll(t *testing.T) {
	url := servers.Postgres(t).URL() + "&listen-url=postgres://postgres@127.0.0.1:1/postgres"
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := Open(ctx, url)
	require.ErrorIs(t, err, coord.ErrUnavailable, "nobody tells it anything at that address")
	client, err := Open(t.Context(), url+"&polling=yes")
	require.NoError(t, err)
	require.NoError(t, client.Close())
}

func TestAMemcachedThatEvictsTakesConsent(t *testing.T) {
	url := "memcached://" + servers.Memcached(t).Addrs()[0]
	_, err := Open(t.Context(), url)
	require.ErrorIs(t, err, coord.ErrDenied)
	client, err := Open(t.Context(), url+"?evictions=yes")
	require.NoError(t, err)
	require.NoError(t, client.Close())
}

func TestAPasswordThatIsNotOnTheCommandLine(t *testing.T) {
	cluster := servers.Redis(t, servers.Password("s3:/@? "))
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte("s3:/@? \n"), 0o600))
	t.Setenv("REDIS_PASSWORD", "s3:/@? ")
	for _, how := range []string{"password-file=" + path, "password-env=REDIS_PASSWORD"} {
		client, err := Open(t.Context(), "redis://"+cluster.Addrs()[0]+"?"+how)
		require.NoError(t, err)
		require.NoError(t, client.Close())
	}
	t.Setenv("REDIS_PASSWORD", "wrong")
	_, err := Open(t.Context(), "redis://"+cluster.Addrs()[0]+"?password-env=REDIS_PASSWORD")
	assert.ErrorIs(t, err, coord.ErrDenied)
}

// The rule is one for all services that know passwords. Nothing is dialled.
func TestAPasswordGoesNowhereInClear(t *testing.T) {
	for _, service := range []string{"zk://u:sesame@%", "etcd://u:sesame@%", "redis://:sesame@%", "redis://:sesame@%,127.0.0.1,127.0.0.2",
		"redis://:sesame@%?master=m", "nats://u:sesame@%", "nats://:sesame@%", "postgres://u:sesame@%/d", "mysql://u:sesame@%/d"} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := Open(ctx, strings.Replace(service, "%", "192.0.2.1", 1))
		require.ErrorIs(t, err, coord.ErrInvalid, service)
		assert.ErrorContains(t, err, "the password would go to 192.0.2.1:")
		assert.ErrorContains(t, err, "cleartext=yes")
		assert.NotContains(t, err.Error(), "sesame")

		here := strings.Replace(service, "%", "127.0.0.1:1", 1)
		ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err = Open(ctx, here)
		require.ErrorIs(t, err, coord.ErrUnavailable, here)
		sep := "?"
		if strings.Contains(here, "?") {
			sep = "&"
		}
		_, err = Open(ctx, here+sep+"cleartext=yes")
		require.NotErrorIs(t, err, coord.ErrInvalid, here)
	}
}

func TestTheServersAuthorityIsTheOneThatTheURLNames(t *testing.T) {
	cluster := servers.Redis(t)
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates})
	require.NoError(t, err)
	defer ln.Close()
	go func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				out, err := net.Dial("tcp", cluster.Addrs()[0])
				if err != nil {
					return
				}
				defer out.Close()
				go io.Copy(out, in)
				io.Copy(in, out)
			}()
		}
	}()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o600))
	client, err := Open(t.Context(), "redis://"+ln.Addr().String()+"?ca="+ca)
	require.NoError(t, err)
	require.NoError(t, client.Close())
	client, err = Open(t.Context(), "redis://"+ln.Addr().String()+"?ca="+ca+"&server-name=example.com")
	require.NoError(t, err)
	require.NoError(t, client.Close())

	for params, says := range map[string]string{"tls=yes": "certificate", "ca=" + ca + "&server-name=elsewhere": "elsewhere"} {
		_, err = Open(t.Context(), "redis://"+ln.Addr().String()+"?"+params)
		assert.ErrorIs(t, err, coord.ErrDenied)
		assert.ErrorContains(t, err, says)
	}
}

// Without a path it is a directory of the user's, whatever the environment says.
func TestTheUsersOwnDirectoryIsOne(t *testing.T) {
	one, err := own()
	require.NoError(t, err)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	other, err := own()
	require.NoError(t, err)
	assert.Equal(t, one, other)
}

func TestADirectoryThatCannotBe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	began := time.Now()
	_, err := Open(t.Context(), "file://"+path+"/locks")
	require.Error(t, err)
	assert.NotErrorIs(t, err, coord.ErrInvalid)
	assert.NotContains(t, err.Error(), "\n")
	assert.Less(t, time.Since(began), 5*time.Second)
}

// A file of credentials is read when the server is asked to let us in.
func TestCredentialsForNATSAreRead(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "credentials")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	client, err := Open(ctx, "nats://"+servers.NATS(t).Addrs()[0]+"?credentials="+missing)
	if err == nil {
		client.Close()
	}
	assert.ErrorContains(t, err, missing)
}
