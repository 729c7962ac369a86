package zk

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestTheServiceSweepsEmptyLines(t *testing.T) {
	s := play(t)
	e := entry("lock")
	e.Line = "a/b/c"
	me, _, err := s.sess.Join(s.ctx, e)
	require.NoError(t, err)
	s.leave(me, true)
	require.Eventually(t, func() bool {
		there, _, err := s.admin.Exists(s.root)
		return err == nil && !there
	}, patience, 20*time.Millisecond)
}

// The service removes no container that never had a child. So a join that is given up, or whose session ends, when the
// directory has been made and the node has not, would leave it for ever.
func TestTheServiceSweepsALineThatNobodyEntered(t *testing.T) {
	s := play(t)
	me, _ := s.join(s.sess, "lock") // so that the root is there
	ctx, cancel := context.WithCancel(s.ctx)
	s.proxies[0].OnRequest(func(r zkwire.Request) zkwire.Verdict {
		if r.Op == zkwire.CreateContainer || r.Op == zkwire.Multi {
			cancel()
			time.Sleep(50 * time.Millisecond) // so that it is noticed before there is an answer
		}
		return zkwire.Pass
	})
	e := entry("lock")
	e.Line = "b"
	_, _, err := s.sess.Join(ctx, e)
	require.ErrorIs(t, err, context.Canceled)
	for _, want := range []bool{true, false} {
		require.Eventually(t, func() bool {
			there, _, err := s.admin.Exists(s.root + "/b")
			return err == nil && there == want
		}, patience, 5*time.Millisecond)
	}
	s.leave(me, true)
}

func TestAJoinThatMakesTheDirectoryGetsNoAnswer(t *testing.T) {
	for name, verdict := range map[string]zkwire.Verdict{"it was made": zkwire.DropReply, "it was not": zkwire.DropBeforeApply} {
		t.Run(name, func(t *testing.T) {
			s := play(t)
			above, _ := s.join(s.sess, "lock") // so that the first one makes it
			var lost atomic.Bool
			s.proxies[0].OnRequest(func(r zkwire.Request) zkwire.Verdict {
				if r.Op == zkwire.Multi && lost.CompareAndSwap(false, true) {
					return verdict
				}
				return zkwire.Pass
			})
			e := entry("lock")
			e.Line = "a/b"
			me, ahead, err := s.sess.Join(s.ctx, e)
			require.NoError(t, err)
			require.Empty(t, ahead)
			require.True(t, lost.Load())
			require.Len(t, s.stored(t, "a/b"), 1)
			s.leave(me, true)
			require.Empty(t, s.stored(t, "a/b"))
			s.leave(above, true)
		})
	}
}

// The directory may go at any moment between two joins, or within one.
func TestJoinsRaceWithTheSweeping(t *testing.T) {
	s := play(t)
	stop := make(chan struct{})
	swept := make(chan int)
	go func() {
		n := 0
		defer func() { swept <- n }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			// Like the service, it removes only directories that were used and are empty.
			there, stat, err := s.admin.Exists(s.root + "/a")
			if err == nil && there && stat.Cversion > 0 && s.admin.Delete(s.root+"/a", -1) == nil {
				n++
			}
		}
	}()
	last := driver.Token(0)
	for range 200 {
		me, ahead := s.join(s.sess, "lock")
		require.Empty(t, ahead)
		require.Greater(t, me.Node().Token, last)
		last = me.Node().Token
		s.leave(me, true)
	}
	close(stop)
	n := <-swept
	t.Logf("swept %d times", n)
	require.Positive(t, n)
}

// Servers before 3.5.3 have no containers.
func TestWithoutContainersTheDriverSweeps(t *testing.T) {
	s := play(t)
	s.sess.service.plainDirs.Store(true)
	for _, line := range []string{"a", "a/b", "c"} {
		e := entry("lock")
		e.Line = line
		me, _, err := s.sess.Join(s.ctx, e)
		require.NoError(t, err)
		s.leave(me, true)
	}
	other := s.another()
	e := entry("lock")
	e.Line = "c"
	_, _, err := other.Join(s.ctx, e)
	require.NoError(t, err)
	time.Sleep(600 * time.Millisecond)
	there, _, err := s.admin.Exists(s.root + "/a/b")
	require.NoError(t, err)
	require.True(t, there, "plain directories are not swept by the service")

	require.NoError(t, s.sess.Close(s.ctx))
	names, _, err := s.admin.Children(s.root)
	require.NoError(t, err)
	require.Equal(t, []string{"c"}, names, "all but the one in use")
	require.NoError(t, other.Close(s.ctx))
	require.NoError(t, s.admin.Delete(s.root+"/c", -1))
	require.NoError(t, s.admin.Delete(s.root, -1))
}

// Nobody else would take them away.
func TestAPlainDirectoryThatWasMadeWithoutAnAnswerIsSwept(t *testing.T) {
	s := play(t)
	s.sess.service.plainDirs.Store(true)
	above, _ := s.join(s.sess, "lock") // so that the first one makes it
	var lost atomic.Bool
	s.proxies[0].OnRequest(func(r zkwire.Request) zkwire.Verdict {
		if r.Op == zkwire.Multi && lost.CompareAndSwap(false, true) {
			return zkwire.DropReply
		}
		return zkwire.Pass
	})
	e := entry("lock")
	e.Line = "a/b"
	me, _, err := s.sess.Join(s.ctx, e)
	require.NoError(t, err)
	require.True(t, lost.Load())
	s.leave(me, true)
	s.leave(above, true)
	require.NoError(t, s.sess.Close(s.ctx))
	names, _, err := s.admin.Children(s.root)
	if err == nil {
		require.Empty(t, names)
	} else {
		require.ErrorIs(t, err, gozk.ErrNoNode)
	}
}

func TestHowOldServersRefuseContainers(t *testing.T) {
	require.True(t, unimplemented(errors.New("unknown error: -6")))
	require.True(t, unimplemented(errors.New("unknown error: -5")))
	for _, err := range []error{nil, gozk.ErrNoNode, gozk.ErrConnectionClosed, errors.New("unknown error: -4")} {
		require.False(t, unimplemented(err))
	}
}

// playGuarded has a root that belongs to alice, in which only alice may do anything. The admin is also alice.
func playGuarded(t *testing.T, opts ...Option) *scene {
	s := play(t, append([]Option{WithDigestAuth("alice", "secret")}, opts...)...)
	require.NoError(t, s.admin.AddAuth("digest", []byte("alice:secret")))
	s.raw(s.root, alice(gozk.PermAll))
	return s
}

func alice(perms int32) []gozk.ACL { return gozk.DigestACL(perms, "alice", "secret") }

// A stranger makes the line before its users do, open to all, and could end any hold.
func TestALineThatAStrangerMadeIsRefused(t *testing.T) {
	s := playGuarded(t)
	s.raw(s.root+"/a", gozk.WorldACL(gozk.PermAll))
	for _, e := range []driver.Entry{entry("lock"), try(entry("lock"))} {
		_, _, err := s.sess.Join(s.ctx, e)
		require.ErrorIs(t, err, driver.ErrDenied)
		require.ErrorContains(t, err, s.root+`/a is open to others: "world:anyone" has CREATE, DELETE, ADMIN there`)
	}
	require.Empty(t, s.stored(t, "a"))
	_, err := drivertest.FirstNode(s.ctx, s.sess.service, "a", nil)
	require.ErrorIs(t, err, driver.ErrDenied, "a watcher of the line is not shown a false holder")

	_, err = s.admin.SetACL(s.root+"/a", alice(gozk.PermAll), -1)
	require.NoError(t, err)
	me, _ := s.join(s.sess, "lock")
	first, err := drivertest.FirstNode(s.ctx, s.sess.service, "a", nil)
	require.NoError(t, err)
	require.Equal(t, me.Node().ID, first.ID)
	s.leave(me, true)
}

// The stranger puts another directory in the place of ours.
func TestALineThatAStrangerMakesAnewIsRefused(t *testing.T) {
	s := playGuarded(t)
	me, _ := s.join(s.sess, "lock")
	s.leave(me, true)
	if err := s.admin.Delete(s.root+"/a", -1); err != gozk.ErrNoNode { // it was swept
		require.NoError(t, err)
	}
	s.raw(s.root+"/a", gozk.WorldACL(gozk.PermAll))
	_, _, err := s.sess.Join(s.ctx, entry("lock"))
	require.ErrorIs(t, err, driver.ErrDenied)
	require.ErrorContains(t, err, "/a is open to others")
}

func TestARootThatAStrangerMadeIsRefused(t *testing.T) {
	s := play(t, WithDigestAuth("alice", "secret"))
	s.raw(s.root, gozk.WorldACL(gozk.PermAll))
	_, err := Connect(s.ctx, s.cluster.Addrs(), WithRoot(s.root), WithDigestAuth("alice", "secret"))
	require.ErrorIs(t, err, coord.ErrDenied)
	require.ErrorContains(t, err, s.root+" is open to others")
	require.ErrorContains(t, err, "setAcl")
	_, _, err = s.sess.Join(s.ctx, entry("lock"))
	require.ErrorIs(t, err, driver.ErrDenied)
	require.ErrorContains(t, err, s.root+" is open to others")
	_, err = s.admin.SetACL(s.root, alice(gozk.PermAll), -1)
	require.NoError(t, err)
	me, _ := s.join(s.sess, "lock")
	s.leave(me, true)
}

// An idle root would be swept, and then anybody could make it.
func TestARootOfOnesOwnStays(t *testing.T) {
	s := play(t)
	s.root += "/deep"
	c, err := Connect(s.ctx, s.cluster.Addrs(), WithRoot(s.root), WithDigestAuth("alice", "secret"))
	require.NoError(t, err)
	h, err := c.Acquire(s.ctx, "a", "lock", nil, exclusive)
	require.NoError(t, err)
	require.NoError(t, h.Release())
	require.NoError(t, c.Close())
	may := adminConn(t, s.cluster.Addrs()) // newer servers show it only to those who may read it
	require.NoError(t, may.AddAuth("digest", []byte("alice:secret")))
	require.Eventually(t, func() bool {
		_, stat, err := may.Exists(s.root)
		return err == nil && stat.NumChildren == 0
	}, patience, 20*time.Millisecond, "the line is swept")
	time.Sleep(time.Second) // the servers sweep every 200 ms
	there, _, err := may.Exists(s.root)
	require.NoError(t, err)
	require.True(t, there, "the root is not")
	_, err = s.admin.SetACL(s.root, gozk.WorldACL(gozk.PermAll), -1)
	require.ErrorIs(t, err, gozk.ErrNoAuth, "and it is alice's")
}

// An operator who made the directories is accepted once named in WithACL, even where the service hides the digests.
func TestWhoIsNamedMayHaveRights(t *testing.T) {
	operator := gozk.DigestACL(gozk.PermAll, "operator", "word")
	dir := append(alice(gozk.PermAll&^gozk.PermAdmin), operator...)
	s := play(t, WithDigestAuth("alice", "secret"), WithACL(dir...))
	s.raw(s.root, dir)
	me, _ := s.join(s.sess, "lock")
	s.leave(me, true)

	_, _, err := s.another(WithDigestAuth("alice", "secret")).Join(s.ctx, entry("lock"))
	require.ErrorIs(t, err, driver.ErrDenied)
	require.ErrorContains(t, err, `"digest:operator`)
}

// The service shows clients without ADMIN only the name, which proves nothing.
func TestAStrangerOfTheSameNameIsNotTrusted(t *testing.T) {
	s := play(t, WithDigestAuth("alice", "secret"))
	s.raw(s.root, append(gozk.DigestACL(gozk.PermAll, "alice", "other"), alice(gozk.PermAll&^gozk.PermAdmin)...))
	_, _, err := s.sess.Join(s.ctx, entry("lock"))
	require.ErrorIs(t, err, driver.ErrDenied)
	require.ErrorContains(t, err, s.root+" is open to others")
}

// A directory that has been checked costs no second look.
func TestADirectoryIsLookedAtOnce(t *testing.T) {
	s := playGuarded(t)
	var stay []driver.Place
	for range 3 {
		me, _ := s.join(s.sess, "lock")
		stay = append(stay, me)
	}
	asked := 0
	for _, p := range s.proxies {
		asked += p.Requests(zkwire.GetACL)
	}
	require.Equal(t, 2, asked, "the root and the line")
	for _, me := range stay {
		s.leave(me, false)
	}
}

func TestTheSessionForgetsWhatItHasLookedAt(t *testing.T) {
	var v vetted
	for i := range maxVetted + 1 {
		v.add(strings.Repeat("x", i), 1)
	}
	require.LessOrEqual(t, len(v.dirs), maxVetted)
}

// Unless rights are set, everybody may do everything, and a warning says so.
func TestLinesOpenToAllAreTold(t *testing.T) {
	addrs := servers.ZooKeeper(t, servers.Shared()).Addrs()
	for want, opts := range map[int][]Option{
		1: nil,
		0: {WithACL(gozk.WorldACL(gozk.PermAll)...)},
	} {
		var log logged
		d, err := New(addrs, append(opts, WithLogger(log.logger()))...)
		require.NoError(t, err)
		for range 2 {
			s, err := d.Open(t.Context())
			require.NoError(t, err)
			require.NoError(t, s.Close(t.Context()))
		}
		require.Equal(t, want, log.count("level=WARN"), log.text.String())
		require.Equal(t, want, log.count("WithDigestAuth"))
		require.NoError(t, d.Close(t.Context()))
	}
}
