package zk

import (
	"errors"
	"fmt"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver"
)

func testHosts(over bool, servers ...string) *hosts {
	h := &hosts{over: func() bool { return over }, longest: 200 * time.Millisecond}
	_ = h.Init(servers)
	return h
}

// When told that a round has ended, the library sleeps a second and drops what is queued.
func TestTheRoundNeverEndsWhileTheSessionLives(t *testing.T) {
	h := testHosts(false, "a", "b", "c")
	require.Equal(t, 3, h.Len())
	for i := range 30 {
		server, end := h.Next()
		require.Equal(t, []string{"a", "b", "c"}[i%3], server)
		require.False(t, end)
	}
}

// Only then does it ask itself whether it was closed.
func TestTheRoundEndsWhenTheSessionIsOver(t *testing.T) {
	_, end := testHosts(true, "a", "b").Next()
	require.True(t, end)
}

func TestTriesOfTheFirstRoundAreMadeAtOnce(t *testing.T) {
	h := testHosts(false, "a", "b")
	var pauses []time.Duration
	for range 20 {
		h.Next()
		pauses = append(pauses, h.pause())
	}
	require.Zero(t, pauses[0])
	require.Zero(t, pauses[1])
	for _, p := range pauses[2:] {
		require.Greater(t, p, 10*time.Millisecond)
		require.Less(t, p, 300*time.Millisecond)
	}
	require.Less(t, pauses[2], 30*time.Millisecond)
	require.Greater(t, pauses[19], 100*time.Millisecond)

	h.Connected()
	h.Next()
	require.Zero(t, h.pause())
}

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
		"too short":         func() (driver.Driver, error) { return New([]string{"a"}, WithSessionTimeout(time.Millisecond)) },
		"no ZooKeeper path": func() (driver.Driver, error) { return New([]string{"a"}, WithRoot("app")) },
		`root "/a//b"`:      func() (driver.Driver, error) { return New([]string{"a"}, WithRoot("/a//b")) },
		"zk.Curator":        func() (driver.Driver, error) { return New([]string{"a"}, WithNames(7)) },
	} {
		_, err := f()
		require.ErrorContains(t, err, want)
	}
}

func TestWhichErrorsPass(t *testing.T) {
	for _, err := range []error{
		gozk.ErrConnectionClosed, gozk.ErrNoServer, gozk.ErrSessionMoved, errors.New("write tcp: broken pipe"),
		errors.New("unknown error: -4"), errForeign,
	} {
		require.True(t, passing(err), err)
	}
	for _, err := range []error{
		nil, gozk.ErrNoNode, gozk.ErrNoAuth, gozk.ErrNodeExists, gozk.ErrBadArguments, errors.New("unknown error: -125"),
		driver.ErrSessionEnded, fmt.Errorf("joining: %w", gozk.ErrNoNode),
	} {
		require.False(t, passing(err), err)
	}
}
