package zk

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// watched is a node with one who waits, both watches set.
func watched(t *testing.T, nodePath string) (*watches, *watch, *waiter) {
	ws := &watches{all: map[string]*watch{}, epoch: 1}
	by := newWaiter()
	w := ws.join(nodePath, by)
	w.data, w.children, w.epoch = set, set, 1
	t.Cleanup(func() {
		if w.forget != nil {
			w.forget.Stop()
		}
	})
	return ws, w, by
}

func lockPath(kind string) string { return "/a/" + contender{guid: newGUID(), kind: kind}.name() }

func rang(w *waiter) bool {
	select {
	case <-w.bell:
		return true
	default:
		return false
	}
}

func TestAWriteAndADeletionTogetherAreADeparture(t *testing.T) {
	for _, zxid := range []int64{-1, 77} { // servers before 3.9 do not tell the number
		ws, w, by := watched(t, lockPath("lock"))
		now := time.Now()
		ws.dataChanged(w.path, zxid, now)
		require.False(t, rang(by), "half of it")
		ws.deleted(w.path, zxid, now.Add(markLife/2))
		require.True(t, rang(by))
		require.True(t, w.gone)
		require.True(t, w.left)
	}
}

func TestADeletionAloneIsNoDeparture(t *testing.T) {
	ws, w, by := watched(t, lockPath("lock"))
	ws.deleted(w.path, -1, time.Now())
	require.True(t, rang(by))
	require.True(t, w.gone)
	require.False(t, w.left)
}

func TestALoneWriteIsForgotten(t *testing.T) {
	ws, w, by := watched(t, lockPath("W"))
	ws.dataChanged(w.path, -1, time.Now())
	require.False(t, w.gone)
	require.Eventually(t, func() bool { return rang(by) }, 10*time.Second, time.Millisecond, "so that the watch is set again")
	ws.deleted(w.path, -1, time.Now())
	require.True(t, w.gone)
	require.False(t, w.left)
}

func TestALateDeletionIsNoDeparture(t *testing.T) {
	ws, w, _ := watched(t, lockPath("lock"))
	now := time.Now()
	ws.dataChanged(w.path, -1, now)
	ws.deleted(w.path, -1, now.Add(2*markLife)) // though nobody has come round to forgetting the write
	require.False(t, w.left)
}

func TestTwoTransactionsAreNoDeparture(t *testing.T) {
	ws, w, _ := watched(t, lockPath("lock"))
	now := time.Now()
	ws.dataChanged(w.path, 77, now)
	ws.deleted(w.path, 78, now)
	require.False(t, w.left)
}

func TestAMarkIsNotTrustedAcrossAReconnect(t *testing.T) {
	now := time.Now()
	ws, w, _ := watched(t, lockPath("lock"))
	ws.dataChanged(w.path, -1, now)
	ws.reconnected(2)
	ws.deleted(w.path, -1, now)
	require.False(t, w.left, "between the two")

	ws, w, _ = watched(t, lockPath("lock"))
	ws.reconnected(2) // the library sets the watches again and tells what it finds
	ws.dataChanged(w.path, -1, now)
	ws.deleted(w.path, -1, now)
	require.False(t, w.left, "before the two")
}

func TestOnlyOurLocksAndWritersAreTrusted(t *testing.T) {
	for _, nodePath := range []string{
		lockPath("lead"), lockPath("R"), lockPath("S1of2"),
		"/a/_c_0123456789abcdef0123456789abcdef-lock-0000000001", // of zk.Lock
	} {
		ws, w, by := watched(t, nodePath)
		now := time.Now()
		ws.dataChanged(nodePath, -1, now)
		require.True(t, rang(by), "its data are news")
		ws.deleted(nodePath, -1, now)
		require.True(t, w.gone)
		require.False(t, w.left, nodePath)
	}
}

func TestAWatchIsSharedAndKeptWhileTheServerHasIt(t *testing.T) {
	ws, w, by := watched(t, lockPath("lock"))
	other := newWaiter()
	require.Same(t, w, ws.join(w.path, other))
	ws.quit(w, by)
	ws.quit(w, other)
	require.Len(t, ws.all, 1, "it cannot be taken back")
	require.Same(t, w, ws.join(w.path, other), "so the next one shares it")
	ws.deleted(w.path, -1, time.Now())
	require.False(t, rang(by))
	require.True(t, rang(other))
	ws.quit(w, other)
	require.Empty(t, ws.all)
}

func TestNewsOfStrangersAreNothing(t *testing.T) {
	ws := &watches{all: map[string]*watch{}}
	ws.dataChanged("/x", -1, time.Now())
	ws.deleted("/x", -1, time.Now())
	ws.dirChanged("/x")
	require.Empty(t, ws.all)
}
