package zk

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/verify/servers"
)

// The end of a session is one transaction with all its paths. If it is too large, the ensemble does not survive it.
func TestASessionTakesNoMorePathsThanTheServiceSurvives(t *testing.T) {
	c := servers.ZooKeeper(t, servers.Members(3))
	s := playOn(t, c)
	e := entry("lock")
	e.Line = strings.Repeat("a/", 250) + strings.Repeat("b", 200)

	var mu sync.Mutex
	var places []driver.Place
	var refused error
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for {
				p, _, err := s.sess.Join(s.ctx, e)
				mu.Lock()
				if err == nil {
					places = append(places, p)
				} else {
					refused = err
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	require.ErrorContains(t, refused, "ZOOKEEPER-4306")
	for _, other := range []error{driver.ErrSessionEnded, driver.ErrDenied, driver.ErrBusy, driver.ErrRemoved, context.DeadlineExceeded} {
		require.False(t, errors.Is(refused, other), "%v", other)
	}
	size := 4 + len(places[0].Node().ID)
	t.Logf("%d nodes with paths of %d bytes", len(places), size-4)
	require.Equal(t, len(places)*size, s.sess.roster.bytes)
	require.Greater(t, (len(places)+1)*size, maxPaths)
	require.Less(t, s.sess.roster.bytes, 1<<20, "that is as much as a server takes")
	require.Len(t, s.stored(t, e.Line), len(places))

	s.leave(places[0], false)
	place, _, err := s.sess.Join(s.ctx, e)
	require.NoError(t, err, "there is room again")
	_, _, err = s.sess.Join(s.ctx, e)
	require.ErrorContains(t, err, "ZOOKEEPER-4306")
	s.leave(place, false)
	s.leave(places[1], false)
	require.Equal(t, (len(places)-2)*size, s.sess.roster.bytes)

	s.sess.Abandon(s.ctx)
	require.Eventually(t, func() bool { return len(s.stored(t, e.Line)) == 0 }, s.ttl+patience, 50*time.Millisecond)
	for _, m := range c.Members() {
		client := connectTo(t, m, s.ttl)
		h, err := client.Acquire(s.ctx, "a", "lock", nil, exclusive)
		require.NoError(t, err, "the ensemble serves")
		require.NoError(t, h.Release())
	}
}

// Whatever becomes of a join, what it took is given back.
func TestTheRosterIsEmptyWhenAllHaveLeft(t *testing.T) {
	s := play(t)
	first, _ := s.join(s.sess, "lock")
	require.Equal(t, 4+len(first.Node().ID), s.sess.roster.bytes)
	require.NoError(t, first.Amend(s.ctx, "another", nil))
	require.Equal(t, 4+len(first.Node().ID), s.sess.roster.bytes)
	s.leave(first, false)

	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	for i := range 60 {
		ctx := s.ctx
		if i%3 == 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeout(ctx, time.Duration(i)*50*time.Microsecond)
			defer stop()
		}
		e := entry("lock")
		if i%3 == 1 {
			e = try(e)
		}
		if p, _, err := s.sess.Join(ctx, e); err == nil && i%2 == 0 {
			require.NoError(t, p.Amend(s.ctx, "other", nil))
			s.leave(p, true)
		} else if err == nil {
			_ = p.Leave(ended, false)
		}
	}
	require.Eventually(t, func() bool { return s.sess.roster.standing.Load() == 0 }, patience, time.Millisecond)
	require.Zero(t, s.sess.roster.bytes)
	require.Empty(t, s.stored(t, "a"))
}

// At the end of the session the service lists it like any other node.
func TestANodeOnItsWayOutCountsUntilItHasGone(t *testing.T) {
	r := newRoster()
	for range 2 { // it may be given up by the join and found by the audit
		r.discarding("/a/node")
		require.Equal(t, 4+len("/a/node"), r.bytes)
	}
	require.ErrorContains(t, r.begin("/"+strings.Repeat("x", maxPaths-60), contender{guid: newGUID(), kind: "lock"}), "ZOOKEEPER-4306")
	for range 2 {
		r.discarded("/a/node")
		require.Zero(t, r.bytes)
	}
}

func TestANodeUnderALongerPathTakesMore(t *testing.T) {
	r, p := newRoster(), &place{}
	p.node.ID = "/a/node"
	r.add(p)
	for _, nodePath := range []string{"/a/longer-node", "/a/n"} {
		r.amended(p, nodePath)
		require.Equal(t, 4+len(nodePath), r.bytes)
	}
	r.remove(p)
	require.Zero(t, r.bytes)
	r.amended(p, "/a/late")
	require.Zero(t, r.bytes, "it has gone")
}

// A node that a join left behind because it lacked rights is not one that a backup brought back.
func TestANodeThatMayNotBeTakenAwayEndsNoSession(t *testing.T) {
	s := play(t)
	e := entry("lock")
	e.Line = "b"
	stays, _, err := s.sess.Join(s.ctx, e)
	require.NoError(t, err)
	s.raw(s.root+"/a", gozk.WorldACL(gozk.PermAll))
	s.allow(gozk.PermCreate)
	_, _, err = s.sess.Join(s.ctx, entry("lock"))
	require.ErrorIs(t, err, driver.ErrDenied)
	for range 2 {
		s.cut()()
		require.NoError(t, stays.Amend(s.ctx, "lock", nil), "once it is connected again")
		time.Sleep(200 * time.Millisecond) // until the session's nodes have been listed
		require.NoError(t, s.sess.life.Why())
	}
	s.allow(gozk.PermAll)
	s.emptiesSoon()
	require.Eventually(t, func() bool { return s.sess.roster.standing.Load() == 1 }, patience, 10*time.Millisecond)
	s.leave(stays, true)
	require.NoError(t, s.admin.Delete(s.root+"/a", -1))
}
