package zk

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// watched returns a node with one waiter and its watches set.
func watched(nodePath string) (*watches, *watch, driverkit.Bell) {
	ws := &watches{all: map[string]*watch{}}
	by := driverkit.NewBell()
	w := ws.join(nodePath, by)
	w.settings[ofData].set = true
	w.settings[ofChildren].set = true
	return ws, w, by
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

func TestADeletionByItselfIsADeparture(t *testing.T) {
	ws, w, by := watched(lockPath("lock"))
	ws.deleted(w.path)
	require.True(t, rang(by))
	require.True(t, w.gone)
	require.True(t, w.left)
}

func TestADeletionAfterAWriteMayBeAnAmendment(t *testing.T) {
	ws, w, by := watched(lockPath("lock"))
	ws.dataChanged(w.path)
	require.True(t, rang(by), "so that the watch is set again")
	ws.deleted(w.path)
	require.True(t, rang(by))
	require.True(t, w.gone)
	require.False(t, w.left)

	ws, w, _ = watched(lockPath("lock"))
	ws.dataChanged(w.path)
	w.settings[ofData].begin(7)
	ws.deleted(w.path)
	require.False(t, w.left, "the watch is not set yet")
}

func TestADeletionIsNotTrustedAcrossAReconnect(t *testing.T) {
	ws, w, by := watched(lockPath("lock"))
	ws.reconnected()
	require.True(t, rang(by), "so that the watches are set again")
	ws.deleted(w.path)
	require.True(t, w.gone)
	require.False(t, w.left)
}

// What the service reports while a watch is being set may have happened long ago.
func TestADeletionIsNotTrustedBeforeTheWatchIsSet(t *testing.T) {
	ws, w, by := watched(lockPath("lock"))
	ws.reconnected()
	require.True(t, rang(by))
	w.settings[ofData].begin(7)
	ws.dataChanged(w.path)
	require.True(t, rang(by), "it is news")
	ws.answered([]asked{{interest{w, ofData}, 0}}, ws.connection, nil)
	require.False(t, w.settings[ofData].set, "it was used up")
	ws.deleted(w.path)
	require.False(t, w.left)
}

func TestAnAnswerOfAnotherConnectionSetsNothing(t *testing.T) {
	ws, w, _ := watched(lockPath("lock"))
	ws.reconnected()
	w.settings[ofData].begin(7)
	old := []asked{{interest{w, ofData}, 0}}
	connection := ws.connection
	ws.reconnected()
	ws.answered(old, connection, nil)
	require.Equal(t, setting{}, w.settings[ofData])
}

// A waiter with an older look must also be told what has happened since that look.
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

func TestAWatchIsSharedAndKeptWhileTheServerHasIt(t *testing.T) {
	ws, w, by := watched(lockPath("lock"))
	other := driverkit.NewBell()
	require.Same(t, w, ws.join(w.path, other))
	ws.quit(w, by)
	ws.quit(w, other)
	require.Len(t, ws.all, 1, "it cannot be taken back")
	require.Same(t, w, ws.join(w.path, other), "so the next one shares it")
	ws.deleted(w.path)
	require.False(t, rang(by))
	require.True(t, rang(other))
	ws.quit(w, other)
	require.Empty(t, ws.all)
}

func TestNewsOfStrangersAreNothing(t *testing.T) {
	ws := &watches{all: map[string]*watch{}}
	ws.dataChanged("/x")
	ws.deleted("/x")
	ws.dirChanged("/x")
	require.Empty(t, ws.all)
}

// A node that was amended has gone from its path, not from the line.
func TestTheListTellsAnAmendmentFromADeparture(t *testing.T) {
	c := contender{guid: newGUID(), kind: "W", seq: 7}
	was := c.name()
	c.guid, c.kind = newGUID(), "R"
	behind := contender{guid: newGUID(), kind: "W", seq: 17}
	require.True(t, amendedIn([]string{behind.name(), c.name()}, was))
	require.False(t, amendedIn([]string{behind.name()}, was))
}

// The service may use a watch up at once, to tell of what has happened since the time that the request names. Whoever has
// made no request of its own because that one was under way must be told that there is no watch.
func TestWhoReliesOnAWatchThatIsUsedUpAtOnceIsToldSo(t *testing.T) {
	s := newSession(&service{config: &config{ttl: time.Second}})
	ws := &s.watches
	by := driverkit.NewBell()
	w := ws.joinOwn(lockPath("lock"), by)
	w.settings[ofChildren].begin(7)
	first := []asked{{interest{w, ofChildren}, w.changes}}
	ws.dirChanged(w.path)
	require.True(t, rang(by))
	s.arm(9, interest{w, ofChildren}) // it would panic if it sent anything: there is no connection
	ws.answered(first, ws.connection, nil)
	require.False(t, w.settings[ofChildren].set)
	require.True(t, rang(by), "so that it asks again")

	w.settings[ofChildren].begin(9)
	ws.answered([]asked{{interest{w, ofChildren}, w.changes}}, ws.connection, nil)
	require.True(t, w.settings[ofChildren].armed())
	require.False(t, rang(by), "there is a watch")
}
