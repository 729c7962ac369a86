package zk

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// watched returns a node with one waiter and both watches set.
func watched(t *testing.T, nodePath string) (*watches, *watch, driverkit.Bell) {
	ws := &watches{all: map[string]*watch{}}
	by := driverkit.NewBell()
	w := ws.join(nodePath, by)
	setBoth(w)
	t.Cleanup(func() {
		if w.forget != nil {
			w.forget.Stop()
		}
	})
	return ws, w, by
}

func setBoth(w *watch) {
	w.settings[ofData].set = true
	w.settings[ofChildren].set = true
}

func lockPath(kind string) string { return "/a/" + contender{guid: newGUID(), kind: kind}.name() }

func rang(b driverkit.Bell) bool {
	select {
	case <-b:
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
		require.Equal(t, driver.HandedOn, w.became)
	}
}

func TestADeletionAloneIsNoDeparture(t *testing.T) {
	ws, w, by := watched(t, lockPath("lock"))
	ws.deleted(w.path, -1, time.Now())
	require.True(t, rang(by))
	require.True(t, w.gone)
	require.Equal(t, driver.Gone, w.became)
}

func TestALoneWriteIsForgotten(t *testing.T) {
	ws, w, by := watched(t, lockPath("W"))
	ws.dataChanged(w.path, -1, time.Now())
	require.False(t, w.gone)
	require.Eventually(t, func() bool { return rang(by) }, 10*time.Second, time.Millisecond, "so that the watch is set again")
	ws.deleted(w.path, -1, time.Now())
	require.True(t, w.gone)
	require.Equal(t, driver.Looked, w.became)
}

func TestALateDeletionIsNoDeparture(t *testing.T) {
	ws, w, _ := watched(t, lockPath("lock"))
	now := time.Now()
	ws.dataChanged(w.path, -1, now)
	ws.deleted(w.path, -1, now.Add(2*markLife)) // although the write has not been forgotten yet
	require.Equal(t, driver.Looked, w.became)
}

func TestTwoTransactionsAreNoDeparture(t *testing.T) {
	ws, w, _ := watched(t, lockPath("lock"))
	now := time.Now()
	ws.dataChanged(w.path, 77, now)
	ws.deleted(w.path, 78, now)
	require.Equal(t, driver.Looked, w.became)
}

func TestAMarkIsNotTrustedAcrossAReconnect(t *testing.T) {
	ws, w, by := watched(t, lockPath("lock"))
	now := time.Now()
	ws.dataChanged(w.path, -1, now)
	ws.reconnected()
	require.True(t, rang(by), "so that the watches are set again")
	ws.deleted(w.path, -1, now)
	require.Equal(t, driver.Looked, w.became)
}

// What the service tells while a watch is being set may be a write of long ago.
func TestAMarkIsNotTrustedBeforeTheWatchIsSet(t *testing.T) {
	ws, w, by := watched(t, lockPath("lock"))
	ws.reconnected()
	require.True(t, rang(by))
	now := time.Now()
	w.settings[ofData].begin(7)
	w.settings[ofChildren].begin(7)
	ws.dataChanged(w.path, -1, now)
	require.True(t, rang(by), "it is news")
	ws.answered([]wished{{wish{w, ofData}, 0}, {wish{w, ofChildren}, 0}}, ws.connection, nil)
	require.False(t, w.settings[ofData].set, "it was used up")
	ws.deleted(w.path, -1, now)
	require.Equal(t, driver.Looked, w.became)
}

func TestAnAnswerOfAnotherConnectionSetsNothing(t *testing.T) {
	ws, w, _ := watched(t, lockPath("lock"))
	ws.reconnected()
	w.settings[ofData].begin(7)
	old := []wished{{wish{w, ofData}, 0}}
	connection := ws.connection
	ws.reconnected()
	ws.answered(old, connection, nil)
	require.Equal(t, setting{}, w.settings[ofData])
}

// Whoever has an older look must also be told what happened since that.
func TestAWatchFromALaterMomentOnIsSetAgainForAnEarlierOne(t *testing.T) {
	var s setting
	require.False(t, s.tells(7))
	s.begin(7)
	require.True(t, s.tells(7))
	require.True(t, s.tells(8))
	require.False(t, s.tells(6))
	s.begin(6)
	s.pending, s.set = 0, true
	require.True(t, s.tells(6))
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
		require.Equal(t, driver.Looked, w.became, nodePath)
	}
}

func TestAWatchIsSharedAndKeptWhileTheServerHasIt(t *testing.T) {
	ws, w, by := watched(t, lockPath("lock"))
	other := driverkit.NewBell()
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

// A node that was amended has gone from its path, not from the line.
func TestTheListTellsAnAmendmentFromADeparture(t *testing.T) {
	c := contender{guid: newGUID(), kind: "W", seq: 7}
	ws, w, _ := watched(t, "/a/"+c.name())
	ws.deleted(w.path, -1, time.Now())
	c.guid, c.kind = newGUID(), "R"
	behind := contender{guid: newGUID(), kind: "W", seq: 17}
	require.Equal(t, driver.Amended, ws.change(w, []string{behind.name(), c.name()}))
	require.Equal(t, driver.Gone, ws.change(w, []string{behind.name()}))
}
