package zk

import (
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
	"github.com/turnwise/turnwise/verify/servers"
)

// The engine amends a node to what it is to hear whether it stands. That takes no more rights than a waiter must have, and
// none at all if somebody has taken them away, and it is not a follower that answers.
func TestWhetherANodeStandsIsAskedWithoutTheRightToWrite(t *testing.T) {
	for name, cluster := range map[string]*servers.Cluster{
		"one server":                 servers.ZooKeeper(t, servers.Shared()),
		"followers that check early": servers.ZooKeeper(t, servers.Members(3), servers.JavaOptions("-Dzookeeper.enableEagerACLCheck=true")),
	} {
		t.Run(name, func(t *testing.T) {
			acl := gozk.WorldACL(gozk.PermRead | gozk.PermCreate | gozk.PermDelete | gozk.PermAdmin)
			s := playOn(t, cluster, WithACL(acl...))
			me, _ := s.join(s.sess, "lock")
			require.NoError(t, me.Amend(s.ctx, "lock", nil))
			_, err := s.admin.SetACL(me.Node().ID, gozk.DigestACL(gozk.PermAll, "somebody", "else"), -1)
			require.NoError(t, err)
			before := s.requests(zkwire.SetData, zkwire.Multi)
			require.NoError(t, me.Amend(s.ctx, "lock", nil))
			require.GreaterOrEqual(t, s.requests(zkwire.SetData, zkwire.Multi), before+2, "the servers were asked")
			require.NoError(t, s.admin.Delete(me.Node().ID, -1))
			require.ErrorIs(t, me.Amend(s.ctx, "lock", nil), driver.ErrRemoved)
			s.leave(me, true)
		})
	}
}

func (s *scene) requests(ops ...zkwire.Op) (n int) {
	for _, p := range s.proxies {
		n += p.Requests(ops...)
	}
	return n
}

// What is refused changes nothing, and the amendment says so: the holder may go on as what it was.
func TestAnAmendmentThatIsRefusedChangesNothing(t *testing.T) {
	s := play(t, WithACL(gozk.WorldACL(gozk.PermRead|gozk.PermCreate|gozk.PermDelete)...))
	me, _ := s.join(s.sess, "W")
	holder := s.watch(me)
	for kind, data := range map[string]string{"R": "", "W": "says something"} {
		err := me.Amend(s.ctx, kind, []byte(data))
		require.ErrorIs(t, err, driver.ErrDenied)
		require.ErrorIs(t, err, driver.ErrUnchanged)
		require.ErrorContains(t, err, "WRITE")
	}
	nodes, err := s.link.Line(s.ctx, "a")
	require.NoError(t, err)
	require.Len(t, nodes, 1)
	require.Equal(t, me.Node().ID, nodes[0].ID)
	require.Len(t, me.(*place).allPaths(), 1)
	require.NoError(t, me.Amend(s.ctx, "W", nil), "it stands")

	require.NoError(t, s.link.Remove(s.ctx, nodes[0]))
	require.ErrorIs(t, s.answer(holder).err, driver.ErrRemoved)
	s.leave(me, true)
}

func TestAHoldGoesOnAsAWriterIfItsDowngradeIsRefused(t *testing.T) {
	s := play(t, WithACL(gozk.WorldACL(gozk.PermRead|gozk.PermCreate|gozk.PermDelete)...))
	c := coord.NewClient(s.link.Driver)
	l := rwlock.New(c, "a")
	h, err := l.Lock(s.ctx)
	require.NoError(t, err)
	err = l.Downgrade(s.ctx, h)
	require.ErrorIs(t, err, coord.ErrDenied)
	require.NotErrorIs(t, err, coord.ErrUnsettled)
	require.NoError(t, h.Err())
	require.Equal(t, rules.Writer, h.Node().Kind)
	_, err = rwlock.New(coord.NewClient(s.connect(t).Driver), "a").TryRLock(s.ctx)
	require.ErrorIs(t, err, coord.ErrBusy)
	require.NoError(t, h.Release())
}

// A try that had no answer may have been made before the rights were taken away.
func TestARefusalAfterATryThatHadNoAnswerLeavesItOpen(t *testing.T) {
	s := play(t, WithACL(gozk.WorldACL(gozk.PermAll)...))
	me, _ := s.join(s.sess, "W")
	lost := false
	s.proxies[0].OnRequest(func(r zkwire.Request) zkwire.Verdict {
		if r.Op != zkwire.SetData || lost {
			return zkwire.Pass
		}
		lost = true
		_, err := s.admin.SetACL(me.Node().ID, gozk.WorldACL(gozk.PermRead), -1)
		if err != nil {
			t.Error(err)
		}
		return zkwire.DropBeforeApply
	})
	err := me.Amend(s.ctx, "W", []byte("says something"))
	require.ErrorIs(t, err, driver.ErrDenied)
	require.NotErrorIs(t, err, driver.ErrUnchanged)
	require.ErrorIs(t, me.Amend(s.ctx, "W", nil), driver.ErrDenied, "what it says is not known")
	s.leave(me, true)
	require.Eventually(t, func() bool { return len(s.stored(t, "a")) == 0 }, patience, 10*time.Millisecond)
}

// An operator's request is lost, and the writer becomes a reader, which moves its node, before the next try: the try finds no
// node, and that one must not be taken for the one that the operator has removed.
func TestWhatMovesWhileAnOperatorBreaksItIsRemoved(t *testing.T) {
	s := play(t)
	me, _ := s.join(s.another(), rules.Writer)
	lost := false
	s.proxies[0].OnRequest(func(r zkwire.Request) zkwire.Verdict {
		if r.Op != zkwire.Delete || lost {
			return zkwire.Pass
		}
		lost = true
		if err := me.Amend(s.ctx, rules.Reader, nil); err != nil {
			t.Error(err)
		}
		return zkwire.DropBeforeApply
	})
	operator := coord.NewClient(s.link.Driver)
	line, err := operator.Line(s.ctx, "a")
	require.NoError(t, err)
	require.Len(t, line, 1)
	require.NoError(t, operator.Break(s.ctx, line[0]))
	require.True(t, lost)
	require.Empty(t, s.stored(t, "a"), "it was said to be removed")
	require.ErrorIs(t, me.Amend(s.ctx, rules.Reader, nil), driver.ErrRemoved)
	s.leave(me, true)
}
