package zk

import (
	"slices"
	"sync"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
)

// Another server may not have heard of the node yet. Asked at once whether a create without an answer was applied, it says
// no, and there are two nodes.
func TestTheLookAfterALostJoinMakesTheServerCatchUp(t *testing.T) {
	s := play(t)
	stays, _ := s.join(s.sess, "lock")
	var mu sync.Mutex
	var ops []zkwire.Op // since the create
	s.proxies[0].OnRequest(func(r zkwire.Request) zkwire.Verdict {
		mu.Lock()
		defer mu.Unlock()
		if r.Op == zkwire.Create && len(ops) == 0 {
			ops = append(ops, r.Op)
			return zkwire.DropReply
		}
		if len(ops) > 0 && r.Op != zkwire.Ping {
			ops = append(ops, r.Op)
		}
		return zkwire.Pass
	})
	me, ahead := s.join(s.sess, "lock")
	require.Len(t, ahead, 1)
	require.Equal(t, stays.Node().ID, ahead[0].ID)
	mu.Lock()
	sent := slices.Clone(ops)
	mu.Unlock()
	look := slices.Index(sent[2:], zkwire.GetChildren2) + 2 // the first came with the create
	require.GreaterOrEqual(t, look, 2, "%v", sent)
	require.Equal(t, zkwire.Sync, sent[look-1], "%v", sent)
	s.leave(me, false)
	s.leave(stays, true)
}

// A server may still take a create from a broken connection after the look that did not find its node.
func TestWhatALostJoinMakesLaterIsTakenAway(t *testing.T) {
	s := play(t)
	met := s.fate(drivertest.LostAfter)
	me, _ := s.join(s.sess, "lock")
	<-met
	mine := me.Node().ID
	_, err := s.sess.conn.Create(mine[:len(mine)-10], nil, gozk.FlagEphemeralSequential, gozk.WorldACL(gozk.PermAll))
	require.NoError(t, err)
	require.Len(t, s.stored(t, "a"), 2)
	require.Eventually(t, func() bool { return len(s.stored(t, "a")) == 1 }, s.ttl+time.Second, 10*time.Millisecond)
	there, _, err := s.admin.Exists(mine)
	require.NoError(t, err)
	require.True(t, there, "which belongs to somebody")
	s.leave(me, true)
}

// A service that goes back to a backup brings back nodes that have left since. While a lost join is being looked into, the
// check of the session's list of nodes does not take its node for a stranger.
func TestANodeOfALostJoinThatComesBackIsTakenAway(t *testing.T) {
	s := play(t)
	met := s.fate(drivertest.LostAfter)
	me, _ := s.join(s.sess, "lock")
	<-met
	s.leave(me, true)
	_, err := s.sess.conn.Create(me.Node().ID, nil, gozk.FlagEphemeral, gozk.WorldACL(gozk.PermAll))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(s.stored(t, "a")) == 0 }, patience, 10*time.Millisecond)
}

// Anyone who may list the line sees a node's name, and may make another one with almost the same name, further ahead. A
// join whose answer was lost must not take that one for its own, nor its own for a twin of it.
func TestANodePlantedUnderTheNameOfALostJoinIsNotTakenForIt(t *testing.T) {
	s := play(t)
	stays, _ := s.join(s.sess, "lock") // has number 0
	second, _ := s.join(s.another(), "lock")
	s.leave(second, false)
	var mu sync.Mutex
	lost, planted := false, ""
	s.proxies[0].OnRequest(func(r zkwire.Request) zkwire.Verdict {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.Op == zkwire.Create && !lost:
			lost = true
			return zkwire.DropReply
		case r.Op == zkwire.Sync && planted == "": // before the look
			for _, name := range s.stored(t, "a") {
				if nodePath := s.root + "/a/" + name; nodePath != stays.Node().ID {
					planted = nodePath[:len(nodePath)-10] + "0000000001"
				}
			}
			_, err := s.admin.Create(planted, nil, gozk.FlagEphemeral, gozk.WorldACL(gozk.PermAll))
			if err != nil {
				t.Error(err)
			}
		}
		return zkwire.Pass
	})
	me, ahead := s.join(s.sess, "lock")
	mu.Lock()
	require.NotEmpty(t, planted)
	mu.Unlock()
	require.NotEqual(t, planted, me.Node().ID)
	require.Equal(t, planted, ahead[0].ID)
	require.Len(t, s.stored(t, "a"), 3)
	require.NoError(t, s.admin.Delete(planted, -1))
	time.Sleep(s.ttl / 2) // while it looks for twins
	require.Len(t, s.stored(t, "a"), 2)
	s.leave(me, false)
	s.leave(stays, true)
}

// An operator may be quicker than the first look.
func TestANodeThatIsRemovedBeforeTheFirstLook(t *testing.T) {
	s := play(t)
	stays, _ := s.join(s.sess, "lock")
	removed := false
	s.proxies[0].OnRequest(func(r zkwire.Request) zkwire.Verdict {
		for limit := time.Now().Add(patience); r.Op == zkwire.GetChildren2 && !removed && time.Now().Before(limit); {
			for _, name := range s.stored(t, "a") {
				if nodePath := s.root + "/a/" + name; nodePath != stays.Node().ID {
					removed = s.admin.Delete(nodePath, -1) == nil
				}
			}
		}
		return zkwire.Pass
	})
	_, _, err := s.sess.Join(s.ctx, entry("lock"))
	require.ErrorIs(t, err, driver.ErrRemoved)
	require.Len(t, s.stored(t, "a"), 1)
	s.leave(stays, true)
}
