package zk

import (
	"context"
	"fmt"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
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
	ws.reconnected(nil)
	require.True(t, rang(by), "so that the watches are set again")
	ws.deleted(w.path)
	require.True(t, w.gone)
	require.False(t, w.left)
}

// What the service reports while a watch is being set may have happened long ago.
func TestADeletionIsNotTrustedBeforeTheWatchIsSet(t *testing.T) {
	ws, w, by := watched(lockPath("lock"))
	ws.reconnected(nil)
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
	ws.reconnected(nil)
	w.settings[ofData].begin(7)
	old := []asked{{interest{w, ofData}, 0}}
	connection := ws.connection
	ws.reconnected(nil)
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
	require.Len(t, ws.all, 1, "the server has it")
	require.Equal(t, 1, ws.idle)
	require.Same(t, w, ws.join(w.path, other), "so the next one shares it")
	require.Zero(t, ws.idle)
	ws.deleted(w.path)
	require.False(t, rang(by))
	require.True(t, rang(other))
	ws.quit(w, other)
	require.Empty(t, ws.all)
	require.Zero(t, ws.idle)
}

func TestWatchesThatAreKeptForNobodyAreLimited(t *testing.T) {
	ws := &watches{all: map[string]*watch{}}
	by := driverkit.NewBell()
	for range 5 {
		w := ws.join(lockPath("lock"), by)
		w.settings[ofData].set = true
		ws.quit(w, by)
	}
	wanted := ws.join(lockPath("lock"), by)
	wanted.settings[ofData].set = true
	require.Equal(t, 5, ws.idle)
	for range 2 {
		require.NotSame(t, wanted, ws.surplus(3))
	}
	require.Nil(t, ws.surplus(3))
	require.Len(t, ws.all, 4)
	ws.reconnected(nil)
	require.Len(t, ws.all, 1, "none was kept by another connection")
	require.Zero(t, ws.idle)
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

// A watch on a name that nobody uses may never be used up. Whoever looks at one such name after the other leaves no more of
// them than may be kept, at the server and here, and hears of news as before.
func TestNamesThatNobodyUsesLeaveFewWatches(t *testing.T) {
	const most, names = 20, 200
	s := play(t)
	s.sess.service.maxIdle = most
	name := func(i int) string { return fmt.Sprintf("a/%d", i) }
	watch := func(i int) error {
		ctx, cancel := context.WithTimeout(s.ctx, time.Hour)
		defer cancel()
		armed := s.proxies[0].Requests(zkwire.SetWatches)
		told := make(chan error, 1)
		go func() {
			_, err := drivertest.FirstNode(ctx, s.link, name(i), &driver.Node{})
			told <- err
		}()
		require.Eventually(t, func() bool { return s.proxies[0].Requests(zkwire.SetWatches) > armed }, patience, time.Millisecond)
		s.idles()
		cancel()
		return <-told
	}
	for i := range names {
		require.ErrorIs(t, watch(i), context.Canceled)
	}
	require.Eventually(t, func() bool { return s.proxies[0].Requests(zkwire.RemoveWatches) == names-most }, patience, time.Millisecond)
	s.sess.watches.mu.Lock()
	require.Len(t, s.sess.watches.all, most)
	s.sess.watches.mu.Unlock()

	before := s.proxies[0].Events()
	for i := range names {
		s.mkdir(t, s.root+"/"+name(i))
	}
	require.NoError(t, s.sess.insist(s.ctx, func(c *gozk.Conn) error { _, err := c.Sync("/"); return err }))
	require.Equal(t, most, s.proxies[0].Events()-before)
	for i := range names {
		require.NoError(t, s.admin.Delete(s.root+"/"+name(i), -1))
	}

	told := make(chan driver.Node, 1)
	go func() {
		n, _ := drivertest.FirstNode(s.ctx, s.link, name(0), &driver.Node{})
		told <- n
	}()
	e := entry("lock")
	e.Line = name(0)
	me, _, err := s.sess.Join(s.ctx, e)
	require.NoError(t, err)
	select {
	case n := <-told:
		require.Equal(t, me.Node().ID, n.ID)
	case <-time.After(patience):
		t.Fatal("a watcher is not told")
	}
	s.leave(me, true)
}

// idles waits until no request for a watch is under way.
func (s *scene) idles() {
	s.Helper()
	require.Eventually(s, func() bool {
		s.sess.watches.mu.Lock()
		defer s.sess.watches.mu.Unlock()
		for _, w := range s.sess.watches.all {
			if w.isPending() {
				return false
			}
		}
		return true
	}, patience, time.Millisecond)
}
