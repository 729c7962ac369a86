package zk

import (
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
)

func TestServersAsInAConnectString(t *testing.T) {
	for _, c := range []struct {
		servers []string
		want    []string
		root    string
	}{
		{[]string{"a:1", "b:2"}, []string{"a:1", "b:2"}, "/turnwise"},
		{[]string{"a"}, []string{"a:2181"}, "/turnwise"},
		{[]string{"a:1, b:2,c/app"}, []string{"a:1", "b:2", "c:2181"}, "/app/turnwise"},
		{[]string{"a:1", "b:2/app/"}, []string{"a:1", "b:2"}, "/app/turnwise"},
	} {
		got, err := configure(c.servers, nil)
		require.NoError(t, err)
		require.Equal(t, c.want, got.servers)
		require.Equal(t, c.root, got.root)
	}
	c, err := configure([]string{"a/app"}, []Option{WithRoot("/")})
	require.NoError(t, err)
	require.Equal(t, "/app", c.root)
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	for want, f := range map[string]func() (driver.Driver, error){
		"empty":              func() (driver.Driver, error) { return New(nil) },
		"empty address":      func() (driver.Driver, error) { return New([]string{"a,,b"}) },
		"only the last one":  func() (driver.Driver, error) { return New([]string{"a/x", "b"}) },
		"WithTTL(1ms)":       func() (driver.Driver, error) { return New([]string{"a"}, WithTTL(time.Millisecond)) },
		"WithTTL(600h0m0s)":  func() (driver.Driver, error) { return New([]string{"a"}, WithTTL(25*24*time.Hour)) },
		"no ZooKeeper path":  func() (driver.Driver, error) { return New([]string{"a"}, WithRoot("app")) },
		`root "/a//b"`:       func() (driver.Driver, error) { return New([]string{"a"}, WithRoot("/a//b")) },
		"zk2:2181, in clear": func() (driver.Driver, error) { return New([]string{"[::1]:2181", "zk2"}, WithDigestAuth("u", "p")) },
		"WithClient is for": func() (driver.Driver, error) {
			return New([]string{"a"}, WithClient(coord.Require(driver.Strength{Death: driver.ByKernel})))
		},
		"zk.Curator": func() (driver.Driver, error) { return New([]string{"a"}, WithNames(7)) },
	} {
		_, err := f()
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, coord.ErrInvalid)
	}
}

func TestANilOptionChangesNothing(t *testing.T) {
	_, err := New([]string{"a"}, nil)
	require.NoError(t, err)
}

func TestWhereAPasswordMayGo(t *testing.T) {
	auth := WithDigestAuth("u", "p")
	for _, c := range []struct {
		server string
		opts   []Option
	}{
		{"localhost", []Option{auth}},
		{"127.0.0.2:2182", []Option{auth}},
		{"[::1]:2181", []Option{auth}},
		{"zk2", []Option{auth, WithTLS(new(tls.Config))}},
		{"zk2", []Option{auth, WithCleartextPassword()}},
		{"zk2", nil},
	} {
		_, err := New([]string{c.server}, c.opts...)
		require.NoError(t, err, c.server)
	}
	_, err := New([]string{"127.0.0.1"}, auth, WithDialer(new(net.Dialer).DialContext))
	require.ErrorContains(t, err, "in clear", "a tunnel may lead anywhere")
	for _, server := range []string{"10.0.0.1", "localhost.example", "127.0.0.1.example:2181", "[fe80::1]:2181"} {
		_, err := New([]string{server}, auth)
		require.ErrorContains(t, err, "in clear", server)
	}
	_, err = New([]string{"zk2"}, auth, WithTLS(&tls.Config{InsecureSkipVerify: true}))
	require.ErrorContains(t, err, "whoever answers there")
	require.ErrorIs(t, err, coord.ErrInvalid)
	var said strings.Builder
	_, err = New([]string{"zk2"}, auth, WithCleartextPassword(), WithLogger(slog.New(slog.NewTextHandler(&said, nil))))
	require.NoError(t, err)
	require.Contains(t, said.String(), "zk2")
}
