package zk

import (
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
)

// These tests are the cells of the table in docs/security.md: what somebody can do who has one right and no other.

// neighbourhood is alice's line, with a holder and a waiter, each in a session of its own, and bob.
type neighbourhood struct {
	*scene
	log    logged
	opts   []Option
	bob    *gozk.Conn
	holder driver.Place
	second driver.Place
	behind *session // of the second
	waiter <-chan woken
}

// rights are what bob has in addition to alice, who may do everything.
type rights struct{ root, line, nodes int32 }

func playNeighbours(t *testing.T, bob rights) *neighbourhood {
	acl := func(perms int32) []gozk.ACL {
		if perms == 0 {
			return alice(gozk.PermAll)
		}
		return append(alice(gozk.PermAll), gozk.DigestACL(perms, "bob", "builder")...)
	}
	n := &neighbourhood{}
	// Alice has named bob, so that the line is not refused. In ZooKeeper, rights on a node do not extend to what is below it,
	// so those of the nodes are set separately.
	named := acl(bob.root | bob.line | bob.nodes)
	n.opts = []Option{WithDigestAuth("alice", "secret"), WithACL(named...), WithLogger(n.log.logger())}
	n.scene = play(t, n.opts...)
	require.NoError(t, n.admin.AddAuth("digest", []byte("alice:secret")))
	n.bob = adminConn(t, n.cluster.Addrs())
	require.NoError(t, n.bob.AddAuth("digest", []byte("bob:builder")))
	n.sess.service.acl = acl(bob.nodes)
	n.raw(n.root, acl(bob.root))
	n.raw(n.root+"/a", acl(bob.line))
	before, _ := n.join(n.sess, "lock")
	n.leave(before, true)
	n.holder, _ = n.join(n.sess, "lock")
	n.behind = n.another(n.opts...)
	n.behind.service.acl = acl(bob.nodes)
	var ahead []driver.Node
	n.second, ahead = n.join(n.behind, "lock")
	require.Len(t, ahead, 1)
	n.waiter = n.wait(n.second, ahead)
	return n
}

// wait waits for the turn of a place, which may be woken in vain meanwhile.
func (n *neighbourhood) wait(me driver.Place, ahead []driver.Node) <-chan woken {
	c := make(chan woken, 1)
	go func() {
		var err error
		for len(ahead) > 0 && err == nil {
			ahead, err = me.Await(n.ctx, ahead[len(ahead)-1:])
		}
		c <- woken{ahead: ahead, err: err}
	}()
	return c
}

// waits makes sure that the one behind is not let in.
func (n *neighbourhood) waits() {
	n.Helper()
	select {
	case w := <-n.waiter:
		n.Fatalf("let in beside the holder: %v", w)
	case <-time.After(500 * time.Millisecond):
	}
}

// handsOver has the holder leave and the one behind enter.
func (n *neighbourhood) handsOver() {
	n.Helper()
	n.waits()
	n.leave(n.holder, true)
	require.NoError(n, n.answer(n.waiter).err)
}

func (n *neighbourhood) denied(err error) {
	n.Helper()
	require.ErrorIs(n, err, gozk.ErrNoAuth)
}

func bobsOwn() []gozk.ACL { return gozk.DigestACL(gozk.PermAll, "bob", "builder") }

func TestANeighbourWithoutRights(t *testing.T) {
	n := playNeighbours(t, rights{})
	line, node := n.root+"/a", n.holder.Node().ID
	for _, p := range []string{n.root, line} {
		_, _, err := n.bob.Children(p)
		n.denied(err)
		_, err = n.bob.Create(p+"/x", nil, 0, bobsOwn())
		n.denied(err)
	}
	_, _, err := n.bob.Get(node)
	n.denied(err)
	n.denied(n.bob.Delete(node, -1))
	for _, p := range []string{n.root, line, node} {
		_, err := n.bob.Set(p, nil, -1)
		n.denied(err)
		_, err = n.bob.SetACL(p, bobsOwn(), -1)
		n.denied(err)
	}
	n.handsOver()
}

func TestANeighbourWhoMayReadTheLine(t *testing.T) {
	n := playNeighbours(t, rights{line: gozk.PermRead})
	names, _, err := n.bob.Children(n.root + "/a")
	require.NoError(t, err)
	require.Len(t, names, 2, "he sees how many stand there, and for what")
	_, _, err = n.bob.Get(n.holder.Node().ID)
	n.denied(err)
	n.handsOver()
}

func TestANeighbourWhoMayWriteTheLine(t *testing.T) {
	n := playNeighbours(t, rights{line: gozk.PermWrite})
	_, err := n.bob.Set(n.root+"/a", []byte("bob was here"), -1)
	require.NoError(t, err, "nobody reads that")
	n.handsOver()
}

// Bob can stand in line for as long as he likes, ahead of the others if he makes up a number. Nobody enters beside the
// holder, and an operator can take his nodes away.
func TestANeighbourWhoMayCreateInTheLine(t *testing.T) {
	n := playNeighbours(t, rights{line: gozk.PermCreate})
	front := n.root + "/a/_c_000102030405060708090a0b0c0d0e0f-lock-0000000000"
	_, err := n.bob.Create(front, nil, 0, gozk.WorldACL(gozk.PermRead))
	require.NoError(t, err)
	n.waits()
	n.leave(n.holder, true)
	n.leave(n.second, true) // whether or not it was let in
	third, ahead := n.join(n.sess, "lock")
	require.Len(t, ahead, 1)
	n.waiter = n.wait(third, ahead)
	n.waits() // bob blocks the line
	nodes, err := n.sess.service.Line(n.ctx, "a")
	require.NoError(t, err)
	require.Equal(t, front, nodes[0].ID)
	require.NoError(t, n.link.Remove(n.ctx, nodes[0]))
	require.NoError(t, n.answer(n.waiter).err)
	n.denied(n.bob.Delete(third.Node().ID, -1))
}

// What he puts into a node of his only he can take away again, or whoever is super there: an operator is told so.
func TestANeighbourWhoMayCreateInTheLineFillsHisNode(t *testing.T) {
	n := playNeighbours(t, rights{line: gozk.PermCreate})
	front := n.root + "/a/_c_000102030405060708090a0b0c0d0e0f-lock-0000000000"
	for _, p := range []string{front, front + "/x"} {
		_, err := n.bob.Create(p, nil, 0, append(bobsOwn(), gozk.WorldACL(gozk.PermRead)...))
		require.NoError(t, err)
	}
	nodes, err := n.sess.service.Line(n.ctx, "a")
	require.NoError(t, err)
	require.Equal(t, front, nodes[0].ID)
	err = n.link.Remove(n.ctx, nodes[0])
	require.ErrorIs(t, err, driver.ErrDenied)
	require.ErrorContains(t, err, "deleteall "+front)
	require.NoError(t, n.bob.Delete(front+"/x", -1))
	require.NoError(t, n.link.Remove(n.ctx, nodes[0]))
	n.handsOver()
}

// In a line there are also those whose names begin with its own. He makes them before others do, and shows them to nobody: that hides no
// other line.
func TestANeighbourWhoMayCreateInTheLineMakesLinesWithin(t *testing.T) {
	n := playNeighbours(t, rights{line: gozk.PermCreate})
	e := entry("lock")
	e.Line = "b"
	other, _, err := n.sess.Join(n.ctx, e)
	require.NoError(t, err)
	_, err = n.bob.Create(n.root+"/a/his", nil, 0, bobsOwn())
	require.NoError(t, err)
	e.Line = "a/his"
	_, _, err = n.sess.Join(n.ctx, e)
	require.ErrorIs(t, err, driver.ErrDenied)
	lines, err := n.link.Lines(n.ctx, "")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "a/his", "b"}, lines)
	lines, err = n.link.Lines(n.ctx, "a")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "a/his"}, lines)
	_, err = n.link.Lines(n.ctx, "a/his/")
	require.ErrorIs(t, err, driver.ErrDenied, "nobody can know")
	n.leave(other, true)
	n.handsOver()
}

// The path of a node that has gone he can make again, whoever took that away. Then an old check passes again.
func TestANeighbourWhoMayCreateInTheLineRevivesAGuard(t *testing.T) {
	n := playNeighbours(t, rights{line: gozk.PermCreate})
	gone := n.holder.Node().ID
	n.handsOver()
	check := &gozk.CheckVersionRequest{Path: gone, Version: -1}
	_, err := n.admin.Multi(check)
	require.ErrorIs(t, err, gozk.ErrNoNode)
	_, err = n.bob.Create(gone, nil, 0, gozk.WorldACL(gozk.PermRead))
	require.NoError(t, err)
	_, err = n.admin.Multi(check)
	require.NoError(t, err)
}

// Bob can end a hold, as an operator does. The holder hears of it at once, not when its session ends.
func TestANeighbourWhoMayDeleteInTheLine(t *testing.T) {
	n := playNeighbours(t, rights{line: gozk.PermDelete})
	held := n.watch(n.holder)
	n.waits()
	require.NoError(t, n.bob.Delete(n.holder.Node().ID, -1))
	require.ErrorIs(t, n.answer(held).err, driver.ErrRemoved)
	require.True(t, n.sess.isOpen(), "the session lives on")
	require.NoError(t, n.answer(n.waiter).err)
	_, err := n.bob.Create(n.holder.Node().ID, nil, 0, bobsOwn())
	n.denied(err)
}

// Bob can lock the line. Nobody is let in beside the holder, whose departure is refused. The error is returned and logged,
// and the departure is tried again until somebody corrects the rights.
func TestANeighbourWhoMayAdministerTheLine(t *testing.T) {
	n := playNeighbours(t, rights{line: gozk.PermAdmin})
	_, err := n.bob.SetACL(n.root+"/a", bobsOwn(), -1)
	require.NoError(t, err)
	_, _, err = n.behind.Join(n.ctx, entry("lock"))
	require.ErrorIs(t, err, driver.ErrDenied)
	err = n.holder.Leave(n.ctx, true)
	require.ErrorIs(t, err, driver.ErrDenied)
	require.ErrorContains(t, err, "DELETE permission on "+n.root+"/a")
	require.Positive(t, n.log.count("a node stays until it may be taken away"))
	n.waits()
	_, err = n.bob.SetACL(n.root+"/a", alice(gozk.PermAll), -1)
	require.NoError(t, err)
	require.NoError(t, n.answer(n.waiter).err, "the departure has gone on")
}

func TestANeighbourWhoMayReadTheNodes(t *testing.T) {
	n := playNeighbours(t, rights{nodes: gozk.PermRead})
	card, _, err := n.bob.Get(n.holder.Node().ID)
	require.NoError(t, err)
	owner, _ := driver.DecodeCard(card)
	require.Equal(t, "h", owner.Host, "he sees who stands there, and what they say")
	n.handsOver()
}

// Bob can put words into others' mouths: what an election says is only as trustworthy as those who may write to the nodes.
// It lets nobody in.
func TestANeighbourWhoMayWriteTheNodes(t *testing.T) {
	n := playNeighbours(t, rights{nodes: gozk.PermWrite})
	_, err := n.bob.Set(n.holder.Node().ID, driver.EncodeCard(driver.Owner{Host: "h"}, []byte("forged")), -1)
	require.NoError(t, err)
	first, err := drivertest.FirstNode(n.ctx, n.sess.service, "a", nil)
	require.NoError(t, err)
	require.Equal(t, "forged", string(first.Data))
	n.handsOver()
}

// So he can ask, and have a leader with a rank give way, in the name of those who wait.
func TestANeighbourWhoMayWriteTheNodesAsksInTheNameOfOthers(t *testing.T) {
	n := playNeighbours(t, rights{nodes: gozk.PermWrite})
	h := n.holder.Node()
	for _, remark := range []string{"turnwise asks please\n", "turnwise rank 9\n"} {
		_, err := n.bob.Set(n.second.Node().ID, driver.EncodeCard(driver.Owner{Host: "h"}, []byte(remark)), -1)
		require.NoError(t, err)
		c := coord.NewClient(n.sess.service)
		require.Eventually(t, func() bool {
			line, err := c.Line(n.ctx, "a")
			return err == nil && len(line) == 2 && line[1].Token > h.Token && (line[1].Asks == "please" || line[1].Rank == 9)
		}, patience, 10*time.Millisecond, remark)
	}
	n.handsOver()
}

// Bob can hide the nodes and keep their owners from changing them. The hand-off still works.
func TestANeighbourWhoMayAdministerTheNodes(t *testing.T) {
	n := playNeighbours(t, rights{nodes: gozk.PermAdmin})
	_, err := n.bob.SetACL(n.holder.Node().ID, bobsOwn(), -1)
	require.NoError(t, err)
	require.ErrorIs(t, n.holder.Amend(n.ctx, "lock", []byte("mine")), driver.ErrDenied)
	n.handsOver()
}

// Bob can make lines before they are used, which are then refused. He cannot take those in use.
func TestANeighbourWhoMayCreateInTheRoot(t *testing.T) {
	n := playNeighbours(t, rights{root: gozk.PermCreate})
	_, err := n.bob.Create(n.root+"/b", nil, 0, gozk.WorldACL(gozk.PermAll))
	require.NoError(t, err)
	e := entry("lock")
	e.Line = "b"
	_, _, err = n.sess.Join(n.ctx, e)
	require.ErrorIs(t, err, driver.ErrDenied)
	require.ErrorContains(t, err, "/b is open to others")
	n.handsOver()
}

// Bob can remove idle lines, as the service does; tokens keep growing.
func TestANeighbourWhoMayDeleteInTheRoot(t *testing.T) {
	n := playNeighbours(t, rights{root: gozk.PermDelete})
	require.ErrorIs(t, n.bob.Delete(n.root+"/a", -1), gozk.ErrNotEmpty)
	before := n.holder.Node().Token
	n.handsOver()
	n.leave(n.second, true)
	if err := n.bob.Delete(n.root+"/a", -1); err != gozk.ErrNoNode {
		require.NoError(t, err)
	}
	me, _ := n.join(n.sess, "lock")
	require.Greater(t, me.Node().Token, before)
	n.leave(me, true)
}

// Bob can lock out newcomers: new lines cannot be made, and Connect fails. Lines in use go on.
func TestANeighbourWhoMayAdministerTheRoot(t *testing.T) {
	n := playNeighbours(t, rights{root: gozk.PermAdmin})
	_, err := n.bob.SetACL(n.root, bobsOwn(), -1)
	require.NoError(t, err)
	e := entry("lock")
	e.Line = "b"
	_, _, err = n.sess.Join(n.ctx, e)
	require.ErrorIs(t, err, driver.ErrDenied)
	_, err = Connect(n.ctx, n.cluster.Addrs(), append(n.opts, WithRoot(n.root))...)
	require.ErrorIs(t, err, coord.ErrDenied)
	for _, sess := range []*session{n.sess, n.another(n.opts...)} {
		me, _ := n.join(sess, "lock")
		n.leave(me, false)
	}
	n.handsOver()
}

// Line x below root /r/in is line in/x below root /r.
func TestARootWithinAnotherIsAPartOfIt(t *testing.T) {
	s := play(t)
	inner, _ := s.wire(t, WithRoot(s.root+"/in"))
	sess, err := inner.Open(s.ctx)
	require.NoError(t, err)
	e := entry("lock")
	e.Line = "x"
	me, _, err := sess.Join(s.ctx, e)
	require.NoError(t, err)
	e.Line = "in/x"
	behind, ahead, err := s.sess.Join(s.ctx, e)
	require.NoError(t, err)
	require.Len(t, ahead, 1)
	require.Equal(t, me.Node().ID, ahead[0].ID)
	for link, want := range map[driver.Driver]string{s.link.Driver: "in/x", inner.Driver: "x"} {
		lines, err := link.Lines(s.ctx, "")
		require.NoError(t, err)
		require.Equal(t, []string{want}, lines)
	}
	s.leave(me, true)
	ahead, err = behind.Await(s.ctx, ahead)
	require.NoError(t, err)
	require.Empty(t, ahead)
	s.leave(behind, true)
}

// A memo lies beside the line, and only those who may use the root have rights there.
func TestANeighbourWhoMayDoAnythingInTheLineMayNotTouchItsMemo(t *testing.T) {
	n := playNeighbours(t, rights{line: gozk.PermAll, nodes: gozk.PermAll})
	n.sess.service.acl = alice(gozk.PermAll) // what Alice makes from now on
	require.NoError(t, n.holder.Remember(n.ctx, []byte("tuesday")))
	memo := n.sess.service.memo("a")
	_, _, err := n.bob.Get(memo)
	n.denied(err)
	_, err = n.bob.Set(memo, []byte("friday"), -1)
	n.denied(err)
	n.denied(n.bob.Delete(memo, -1))
	_, err = n.bob.Create(n.sess.service.memo("b"), []byte("friday"), 0, gozk.WorldACL(gozk.PermAll))
	n.denied(err)
	got, err := n.sess.service.Memo(n.ctx, "a")
	require.NoError(t, err)
	require.Equal(t, "tuesday", string(got))
	n.leave(n.holder, true)
}

// Whose directory the memos are in could have a job run twice, or never. So it is refused.
func TestADirectoryOfMemosThatAStrangerMadeIsRefused(t *testing.T) {
	n := playNeighbours(t, rights{root: gozk.PermCreate})
	_, err := n.bob.Create(n.sess.service.memos(), nil, 0, gozk.WorldACL(gozk.PermAll))
	require.NoError(t, err)
	require.ErrorIs(t, n.holder.Remember(n.ctx, []byte("tuesday")), driver.ErrDenied)
	_, err = n.bob.Create(n.sess.service.memo("a"), []byte("friday"), 0, gozk.WorldACL(gozk.PermAll))
	require.NoError(t, err)
	_, err = n.sess.service.Memo(n.ctx, "a")
	require.ErrorIs(t, err, driver.ErrDenied)
	n.handsOver()
}
