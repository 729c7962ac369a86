package backend

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
)

// Each error is one line that says what to do, and no service is asked.
func TestWhatIsWrongWithAURL(t *testing.T) {
	for url, says := range map[string]string{
		"":                              `"": invalid argument: it is no URL: write file:///var/lib/locks or etcd://host:2379, say`,
		"/var/lib/locks":                `"/var/lib/locks": invalid argument: it is no URL: write file:///var/lib/locks or etcd://host:2379, say`,
		"consul://h":                    `consul://h: invalid argument: no service is called "consul": use etcd, file, kube, memcached, mysql, nats, postgres, redis, zk`,
		"zk://":                         `zk://: invalid argument: it names no host: write zk://host:2181`,
		"zk://h,,i":                     `zk://h,,i: invalid argument: "" is no host, and no host:port`,
		"zk://h:0":                      `zk://h:0: invalid argument: "h:0" is no host, and no host:port`,
		"zk://h:port":                   `zk://h:…: invalid argument: a port has only digits; behind a password there is an @, and in it %2F stands for a / and %3F for a ?`,
		"redis://u:hid/den@h":           `redis://u:…: invalid argument: an @ stands behind the first / or ?: in a password write %2F and %3F for these, and elsewhere %40 for the @`,
		"postgres://u:12?den@h/db":      `postgres://u:…: invalid argument: an @ stands behind the first / or ?: in a password write %2F and %3F for these, and elsewhere %40 for the @`,
		"mysql://u:a@b/c@h/db":          `mysql://u:…: invalid argument: an @ stands behind the first / or ?: in a password write %2F and %3F for these, and elsewhere %40 for the @`,
		"etcd://h?sesion=10s":           `etcd://h?…: invalid argument: there is no parameter sesion: it takes ca, cert, cleartext, key, password-env, password-file, server-name, session, tls`,
		"etcd://h?session=10":           `etcd://h?…: invalid argument: session=10: write a duration such as 10s`,
		"etcd://h?session=-1s":          `etcd://h?…: invalid argument: a session of -1s: it must be from 500ms to 24h0m0s`,
		"etcd://h?session=10ms":         `etcd://h?…: invalid argument: a session of 10ms: it must be from 500ms to 24h0m0s`,
		"etcd://h?session=":             `etcd://h?…: invalid argument: session is empty`,
		"etcd://h?tls=yes&tls=no":       `etcd://h?…: invalid argument: tls stands there twice`,
		"etcd://h?tls=maybe":            `etcd://h?…: invalid argument: tls=maybe: write yes or no`,
		"etcd://h?tls=no&ca=/ca.pem":    `etcd://h?…: invalid argument: tls=no, and yet there are certificates to use`,
		"etcd://h?cert=/cert.pem":       `etcd://h?…: invalid argument: cert and key go together`,
		"etcd://h?password-env=P":       `etcd://h?…: invalid argument: there is a password and no user: write user@host`,
		"etcd://u:p@h?password-env=P":   `etcd://u:…@h?…: invalid argument: it names more than one password: keep one of the URL's own, password-file and password-env`,
		"etcd://u:%zz@h":                `etcd://u:…@h: invalid argument: a % must be followed by two hexadecimal digits: write %25 for the character itself`,
		"etcd://h?%zz":                  `etcd://h?…: invalid argument: what is behind the question mark is not name=value&name=value`,
		"redis://h?longest-session=1s":  `redis://h?…: invalid argument: a session of 10s: others reckon with 1s at most when the service has forgotten who holds: add session=1s; if it must be longer, all who use it need longest-session=10s in their URLs`,
		"file://var/lib":                `file://var/lib: invalid argument: a path begins with a third slash: write file:///var/lib/locks`,
		"file:///locks?session=10s":     `file:///locks?…: invalid argument: there is no parameter session: it takes any-filesystem, group, sync`,
		"redis://h/orders":              `redis://h/orders: invalid argument: "orders" is no database: Redis numbers them, as in redis://host/0`,
		"redis://h,i,j/3":               `redis://h,i,j/3: invalid argument: database 3 of several Redis: a quorum is in database 0`,
		"mysql://h":                     `mysql://h: invalid argument: it names no database: write mysql://user@host/database`,
		"mysql://h,i/db":                `mysql://h,i/db: invalid argument: it names 2 hosts, and mysql is one`,
		"postgres://h/db?server-name=x": `postgres://h/db?…: invalid argument: server-name: PostgreSQL takes the host's name; there is no other`,
		"postgres://u@h":                `postgres://u@h: invalid argument: it names no database: write postgres://user@host/database`,
		"memcached://u@h":               `memcached://…@h: invalid argument: memcached knows no users, and the URL names one`,
		"memcached://h/x":               `memcached://h/x: invalid argument: memcached takes no path, and /x is one`,
		"nats://h/x":                    `nats://h/x: invalid argument: nats takes no path, and /x is one`,
		"nats://token@h":                `nats://…@h: invalid argument: the user has no password: add password-file=PATH; a token is a password without a user, as in nats://:token@host`,
		"nats://h,i":                    `nats://h,i: invalid argument: it names 2 hosts, and nats is one`,
		"kube://shop/orders":            `kube://shop/orders: invalid argument: kube takes no path, and /orders is one`,
		"natss://token@h":               `natss://…@h: invalid argument: no service is called "natss": did you mean nats? There are etcd, file, kube, memcached, mysql, nats, postgres, redis, zk`,
		"nats://u@h?password-file=/no":  `nats://u@h?…: invalid argument: password-file: open /no: no such file or directory`,
		"redis://hidden@h/orders":       `redis://…@h/orders: invalid argument: "orders" is no database: Redis numbers them, as in redis://host/0`,
		"kube://u@shop":                 `kube://…@shop: invalid argument: kube knows no users, and the URL names one`,
		"kube://a,b":                    `kube://a,b: invalid argument: "a,b" is no namespace: write kube://namespace?server=https://host:port`,
		"kube://shop:443":               `kube://shop:443: invalid argument: "shop:443" is no namespace: write kube://namespace?server=https://host:port`,
		"kube://shop?context=a":         `kube://shop?…: invalid argument: context is one of a kubeconfig, and the URL names none`,
		"kube://shop?cert=/cert.pem":    `kube://shop?…: invalid argument: cert and key go together`,
		"zk://h\x1b[2J/\u202e":          `zk://h\x1b[2J/\u202e: invalid argument: "h\x1b[2J" is no host, and no host:port`,
	} {
		_, err := Open(t.Context(), url)
		require.ErrorIs(t, err, coord.ErrInvalid, url)
		assert.Equal(t, "turnwise: backend "+says, err.Error())
	}
}

func TestWhatIsBuiltOutSaysSo(t *testing.T) {
	was := services["etcd"]
	services["etcd"] = nil
	defer func() { services["etcd"] = was }()
	_, err := Parse("etcd://h")
	assert.ErrorIs(t, err, coord.ErrInvalid)
	assert.EqualError(t, err, "turnwise: backend etcd://h: invalid argument: this program was built without etcd (turnwise_no_etcd)")
	assert.NotContains(t, Schemes(), "etcd")
}

func TestSecretsThatAreNotThere(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	t.Setenv("NO_PASSWORD", "")
	for params, says := range map[string]string{
		"password-file=" + dir + "/none":  "no such file",
		"password-file=" + empty:          "is empty",
		"password-env=NO_PASSWORD":        "the variable NO_PASSWORD is not set",
		"ca=" + dir + "/none":             "no such file",
		"ca=" + empty:                     "there is no certificate in",
		"cert=" + empty + "&key=" + empty: "cert and key: ",
	} {
		for _, url := range []string{"etcd://u@127.0.0.1:1", "zk://u@127.0.0.1:1", "redis://u@127.0.0.1:1", "mysql://u@127.0.0.1:1/db"} {
			_, err := Open(t.Context(), url+"?"+params)
			assert.ErrorIs(t, err, coord.ErrInvalid, url+"?"+params)
			assert.ErrorContains(t, err, says)
		}
	}
}

func TestThePasswordIsTheFileWithoutTheLinesEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(path, []byte(" s3:/@? \r\n"), 0o600))
	got, err := password{file: path}.read()
	require.NoError(t, err)
	assert.Equal(t, " s3:/@? ", got)
}

func TestASessionCanBeSetByTheCaller(t *testing.T) {
	var got time.Duration
	was := services["etcd"]
	defer func() { services["etcd"] = was }()
	services["etcd"] = func(t *target) (connect, error) {
		return func(_ context.Context, c config) (*coord.Client, error) {
			got = c.ttl
			return nil, errors.New("enough")
		}, t.withSession()
	}
	s, err := Parse("etcd://h?session=7s")
	require.NoError(t, err)
	s.Connect(t.Context())
	assert.Equal(t, 7*time.Second, got)
	s.Connect(t.Context(), WithTTL(3*time.Second))
	assert.Equal(t, 3*time.Second, got)
	for _, least := range []time.Duration{minSession, maxSession} {
		s.Connect(t.Context(), WithTTL(least))
		assert.Equal(t, least, got)
	}
	_, err = s.Connect(t.Context(), WithTTL(3))
	assert.ErrorIs(t, err, coord.ErrInvalid)
}

// Whatever is typed, nothing is shown that was typed as a password.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"file://", "zk://u:pass@[::1]:2181,h/root?session=10s", "redis://h/0?root=a", "etcd://%zz", "a@b://c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, url string) {
		s, err := Parse(url)
		if err == nil {
			_ = s.String()
		} else if !errors.Is(err, coord.ErrInvalid) {
			t.Fatalf("%q: %v", url, err)
		}
		const secret = "hidden7secret"
		if strings.ContainsAny(url, "/?@:,") {
			return
		}
		for _, form := range []string{"etcd://u" + url + ":" + secret + "@h" + url, "zk://u:" + secret + url + "@h?" + url, url + ":" + secret + "@h",
			"redis://u:" + url + secret + url + "@h", "redis://u:" + secret, "nats://" + secret + "@h" + url, "redis://" + secret + "@h" + url} {
			s, err := Parse(form)
			if err == nil && strings.Contains(s.String(), secret) || err != nil && strings.Contains(err.Error(), secret) {
				t.Fatalf("%q is shown with its password", form)
			}
		}
	})
}
