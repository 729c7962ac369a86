package zk

import (
	"sync"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
)

func TestWithCredentialsEverythingIsTheUsersOwn(t *testing.T) {
	s := play(t, WithDigestAuth("alice", "secret"))
	me, _ := s.join(s.sess, "lock")
	want := gozk.DigestACL(gozk.PermAll, "alice", "secret")
	for _, p := range []string{me.Node().ID, s.root + "/a", s.root} {
		acl, _, err := s.sess.conn.GetACL(p)
		require.NoError(t, err)
		require.Equal(t, want, acl, p)
	}

	for who, opts := range map[string][]Option{"nobody": nil, "mallory": {WithDigestAuth("mallory", "secret")}} {
		stranger := s.another(opts...)
		_, _, err := stranger.Join(s.ctx, entry("lock"))
		require.ErrorIs(t, err, driver.ErrDenied, who)
		require.ErrorContains(t, err, "joining in "+s.root+"/a needs the CREATE permission", who)
		_, err = stranger.service.Line(s.ctx, "a")
		require.ErrorIs(t, err, driver.ErrDenied, who)
		require.ErrorContains(t, err, "listing "+s.root+"/a needs the READ permission", who)
		err = stranger.service.Remove(s.ctx, me.Node())
		require.ErrorIs(t, err, driver.ErrDenied, who)
		require.ErrorContains(t, err, "DELETE permission on "+s.root+"/a", who)
	}

	again := s.another(WithDigestAuth("alice", "secret"))
	second, ahead := s.join(again, "lock")
	waiter := s.await(second, ahead...)
	s.leave(me, true)
	require.NoError(t, s.answer(waiter).err)
}

// The credentials are given again on every connection.
func TestCredentialsSurviveAReconnect(t *testing.T) {
	s := play(t, WithDigestAuth("alice", "secret"))
	first, _ := s.join(s.sess, "lock")
	for range 3 {
		s.cut()()
		me, ahead := s.join(s.sess, "lock")
		require.Equal(t, first.Node().ID, ahead[0].ID)
		s.leave(me, false)
	}
}

func TestWrongCredentialsAreToldAtConnect(t *testing.T) {
	s := play(t, WithDigestAuth("alice", "secret"))
	s.join(s.sess, "lock")
	_, err := Connect(s.ctx, s.cluster.Addrs(), WithRoot(s.root), WithDigestAuth("alice", "wrong"))
	require.ErrorIs(t, err, coord.ErrDenied)
	require.ErrorContains(t, err, s.root)
}

// ZooKeeper lets a user create nodes that the same user may not delete.
func TestLeavingWithoutTheRightTo(t *testing.T) {
	s := play(t)
	s.raw(s.root, gozk.WorldACL(gozk.PermAll))
	s.raw(s.root+"/a", gozk.WorldACL(gozk.PermRead|gozk.PermCreate))
	me, _ := s.join(s.sess, "lock")
	err := me.Leave(s.ctx, true)
	require.ErrorIs(t, err, driver.ErrDenied)
	require.ErrorContains(t, err, "leaving "+me.Node().ID+" needs the DELETE permission on "+s.root+"/a")
	require.NoError(t, s.sess.Close(s.ctx))
	require.Empty(t, s.stored(t, "a"), "the end of the session takes it away")
	require.NoError(t, s.admin.Delete(s.root+"/a", -1))
	require.NoError(t, s.admin.Delete(s.root, -1))
}

// allow sets the rights of everybody in the line's directory.
func (s *scene) allow(perms int32) {
	s.Helper()
	_, err := s.admin.SetACL(s.root+"/a", gozk.WorldACL(perms|gozk.PermAdmin), -1)
	require.NoError(s, err)
}

func (s *scene) emptiesSoon() {
	s.Helper()
	require.Eventually(s, func() bool { return len(s.stored(s, "a")) == 0 }, patience, 10*time.Millisecond)
}

// What is refused now may be allowed later; until then the node keeps those behind it waiting.
func TestADepartureThatIsRefusedGoesOn(t *testing.T) {
	var log logged
	s := play(t, WithLogger(log.logger()))
	me, _ := s.join(s.sess, "lock")
	s.allow(gozk.PermRead | gozk.PermCreate)
	require.ErrorIs(t, me.Leave(s.ctx, true), driver.ErrDenied)
	time.Sleep(time.Second)
	require.Len(t, s.stored(t, "a"), 1)
	require.Equal(t, 1, log.count("a node stays until it may be taken away"))
	s.allow(gozk.PermAll)
	s.emptiesSoon()
}

// A join that may make its node but not see who is ahead ends at once, although the node stays for now.
func TestAJoinThatMayOnlyCreateIsDenied(t *testing.T) {
	s := play(t)
	s.raw(s.root, gozk.WorldACL(gozk.PermAll))
	s.raw(s.root+"/a", gozk.WorldACL(gozk.PermAll))
	s.allow(gozk.PermCreate)
	for _, e := range []driver.Entry{entry("lock"), try(entry("lock"))} {
		joined := make(chan error, 1)
		go func() {
			_, _, err := s.sess.Join(s.ctx, e)
			joined <- err
		}()
		select {
		case err := <-joined:
			require.ErrorIs(t, err, driver.ErrDenied)
			require.ErrorContains(t, err, "listing "+s.root+"/a needs the READ permission")
		case <-time.After(patience):
			t.Fatal("the join goes on")
		}
	}
	s.allow(gozk.PermAll)
	s.emptiesSoon()
	require.NoError(t, s.admin.Delete(s.root+"/a", -1))
	require.NoError(t, s.admin.Delete(s.root, -1))
}

// While reading is denied, nobody can find out whether the node was made. As soon as reading is allowed again, the node is
// found and taken away.
func TestAJoinWhoseOutcomeStaysOpenLeavesNothing(t *testing.T) {
	s := play(t)
	stays, _ := s.join(s.sess, "lock")
	var mu sync.Mutex
	lost := false
	s.proxies[0].OnRequest(func(r zkwire.Request) zkwire.Verdict {
		mu.Lock()
		defer mu.Unlock()
		if r.Op == zkwire.Create && !lost {
			lost = true
			s.allow(gozk.PermCreate | gozk.PermDelete)
			return zkwire.DropReply
		}
		return zkwire.Pass
	})
	_, _, err := s.sess.Join(s.ctx, entry("lock"))
	require.ErrorIs(t, err, driver.ErrDenied)
	time.Sleep(s.ttl) // however late
	s.allow(gozk.PermAll)
	require.Eventually(t, func() bool { return len(s.stored(t, "a")) == 1 }, patience, 10*time.Millisecond)
	s.leave(stays, true)
}

func TestOtherRights(t *testing.T) {
	acl := gozk.WorldACL(gozk.PermRead | gozk.PermCreate | gozk.PermDelete)
	s := play(t, WithACL(acl...))
	me, _ := s.join(s.sess, "lock")
	got, _, err := s.admin.GetACL(me.Node().ID)
	require.NoError(t, err)
	require.Equal(t, acl, got)
	second, ahead := s.join(s.sess, "lock")
	waiter := s.await(second, ahead...)
	s.leave(me, true) // without the mark, which would be a write
	require.NoError(t, s.answer(waiter).err)
	s.leave(second, true)
}

func TestRightsOfNobodyAreExplained(t *testing.T) {
	s := play(t, WithACL(gozk.AuthACL(gozk.PermAll)...))
	_, _, err := s.sess.Join(s.ctx, entry("lock"))
	require.ErrorIs(t, err, driver.ErrDenied)
	require.ErrorContains(t, err, "WithDigestAuth")
}

func TestALineInsideAContenderIsExplained(t *testing.T) {
	s := play(t)
	s.raw(s.root, gozk.WorldACL(gozk.PermAll))
	_, err := s.admin.Create(s.root+"/x", nil, gozk.FlagEphemeral, gozk.WorldACL(gozk.PermAll))
	require.NoError(t, err)
	e := entry("lock")
	e.Line = "x"
	_, _, err = s.sess.Join(s.ctx, e)
	require.ErrorContains(t, err, s.root+"/x is an ephemeral node")
	require.NoError(t, s.admin.Delete(s.root+"/x", -1))
	require.NoError(t, s.admin.Delete(s.root, -1))
}

// playUnreadable makes a line that all may read, with contenders that nobody may read. tidy takes the line away.
func playUnreadable(t *testing.T) (s *scene, tidy func()) {
	s = play(t, WithACL(gozk.WorldACL(gozk.PermCreate|gozk.PermDelete)...))
	s.raw(s.root, gozk.WorldACL(gozk.PermRead|gozk.PermCreate|gozk.PermDelete))
	s.raw(s.root+"/a", gozk.WorldACL(gozk.PermRead|gozk.PermCreate|gozk.PermDelete))
	return s, func() {
		require.NoError(t, s.admin.Delete(s.root+"/a", -1))
		require.NoError(t, s.admin.Delete(s.root, -1))
	}
}

func TestANodeThatMayNotBeReadIsShownAndWaitedFor(t *testing.T) {
	s, tidy := playUnreadable(t)
	first, _ := s.join(s.sess, "lock")
	me, ahead := s.join(s.sess, "lock")
	waiter := s.await(me, ahead...)
	select {
	case w := <-waiter:
		t.Fatalf("%v ahead, error %v", w.ahead, w.err)
	case <-time.After(2500 * time.Millisecond): // it has looked more than once
	}

	nodes, err := s.link.Line(s.ctx, "a")
	require.NoError(t, err)
	require.Len(t, nodes, 2)
	want := driver.Node{Line: "a", ID: first.Node().ID, Kind: "lock", Token: first.Node().Token}
	require.Equal(t, want, nodes[0], "its owner is unknown")
	seen, err := drivertest.FirstNode(s.ctx, s.link, "a", nil)
	require.NoError(t, err)
	require.Equal(t, want, seen)
	told := make(chan driver.Node, 1)
	go func() {
		n, err := drivertest.FirstNode(s.ctx, s.link, "a", &seen)
		if err != nil {
			t.Error(err)
		}
		told <- n
	}()
	time.Sleep(100 * time.Millisecond)
	require.NoError(t, s.link.Remove(s.ctx, nodes[0]), "an operator can take it away")
	w := s.answer(waiter)
	require.NoError(t, w.err)
	require.Empty(t, w.ahead)
	select {
	case n := <-told:
		require.Equal(t, me.Node().ID, n.ID)
	case <-time.After(patience):
		t.Fatal("a watcher is not told")
	}
	s.leave(me, false)
	tidy()
}

// Servers with the fix for CVE-2024-23944, such as Debian's 3.8.0, tell only those who may read a node that it has gone.
func TestTheEndOfANodeThatMayNotBeReadIsFoundOut(t *testing.T) {
	s, tidy := playUnreadable(t)
	first, _ := s.join(s.sess, "lock")
	me, ahead := s.join(s.sess, "lock")
	waiter := s.await(me, ahead...)
	time.Sleep(100 * time.Millisecond)
	left := time.Now()
	s.leave(first, true)
	w := s.answer(waiter)
	require.NoError(t, w.err)
	require.Empty(t, w.ahead)
	t.Logf("found out after %v", time.Since(left).Round(time.Millisecond))
	s.leave(me, true)
	tidy()
}
