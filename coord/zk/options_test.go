package zk

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
		"empty":             func() (driver.Driver, error) { return New(nil) },
		"empty address":     func() (driver.Driver, error) { return New([]string{"a,,b"}) },
		"only the last one": func() (driver.Driver, error) { return New([]string{"a/x", "b"}) },
		"too short":         func() (driver.Driver, error) { return New([]string{"a"}, WithTTL(time.Millisecond)) },
		"no ZooKeeper path": func() (driver.Driver, error) { return New([]string{"a"}, WithRoot("app")) },
		`root "/a//b"`:      func() (driver.Driver, error) { return New([]string{"a"}, WithRoot("/a//b")) },
		"zk.Curator":        func() (driver.Driver, error) { return New([]string{"a"}, WithNames(7)) },
	} {
		_, err := f()
		require.ErrorContains(t, err, want)
	}
}
