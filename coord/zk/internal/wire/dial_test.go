package wire

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func testHosts(over bool, servers ...string) *Hosts {
	h := &Hosts{Over: func() bool { return over }, Longest: func() time.Duration { return 200 * time.Millisecond }}
	_ = h.Init(servers)
	return h
}

// When told that a round has ended, the library sleeps for a second and drops what is queued.
func TestTheRoundNeverEndsWhileTheSessionLives(t *testing.T) {
	h := testHosts(false, "a", "b", "c")
	require.Equal(t, 3, h.Len())
	var tried []string
	for range 30 {
		server, end := h.Next()
		tried = append(tried, server)
		require.False(t, end)
	}
	for i, server := range tried {
		require.Equal(t, tried[i%3], server, "in turn")
	}
	require.ElementsMatch(t, []string{"a", "b", "c"}, tried[:3])
}

// The library checks only at the end of a round whether it was closed.
func TestTheRoundEndsWhenTheSessionIsOver(t *testing.T) {
	_, end := testHosts(true, "a", "b").Next()
	require.True(t, end)
}

func TestTriesOfTheFirstRoundAreMadeAtOnce(t *testing.T) {
	h := testHosts(false, "a", "b")
	var pauses []time.Duration
	for range 20 {
		h.Next()
		pauses = append(pauses, h.Pause())
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
	require.Zero(t, h.Pause())
}

// Only after connecting is it clear which of a name's addresses serve.
func TestEachTryOfANameBeginsWithAnotherAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	h := testHosts(false, "zk:"+port)
	h.Lookup = func(_ context.Context, name string) ([]string, error) {
		require.Equal(t, "zk", name)
		return []string{"127.0.0.1", "127.0.0.9", "127.0.0.1"}, nil
	}
	tried := map[string]int{}
	for range 4 {
		c, as, err := h.Dial(t.Context(), "zk:"+port)
		if tried[as]++; err == nil {
			c.Close()
		}
	}
	require.Equal(t, 4, tried["zk:"+port+" (127.0.0.1:"+port+")"], "nobody listens at the other, so it takes no try")
	require.Equal(t, 2, h.Addresses())
	c, as, err := h.Dial(t.Context(), l.Addr().String())
	require.NoError(t, err)
	c.Close()
	require.Equal(t, l.Addr().String(), as)
}

// A proxy also sends alerts while what is behind it is down.
func TestOnlyAnAlertAboutOurselvesIsFinal(t *testing.T) {
	for code, final := range map[byte]bool{
		0: false, 40: false, 80: false, 112: false, // handshake failure, internal error, unrecognized name
		42: true, 46: true, 48: true, 116: true, 70: true, // certificates, version
	} {
		client, server := net.Pipe()
		go func() {
			_, _ = server.Read(make([]byte, 4096)) // the hello
			_, _ = server.Write([]byte{21, 3, 3, 0, 2, 2, code})
			server.Close()
		}()
		_, err := Secure(t.Context(), client, "zk:1", &tls.Config{})
		require.Error(t, err)
		troubles := NewTroubles(func() int { return 1 })
		troubles.Note("zk:1", err)
		select {
		case <-troubles.Hopeless():
			require.True(t, final, "%v", err)
		default:
			require.False(t, final, "%v", err)
		}
	}
}
