package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func testHosts(over bool, servers ...string) *Hosts {
	h := &Hosts{Over: func() bool { return over }, Longest: 200 * time.Millisecond}
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

// Only then does it check whether it was closed.
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
