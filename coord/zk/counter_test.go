package zk

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/recipes/multi"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/verify/servers"
)

// nearTheEnd starts a server on which the next node of line "a" below root gets that number. It uses a doctored snapshot,
// since two billion joins would take a month. The snapshot also says that as many transactions have been made, because
// tokens rely on that.
func nearTheEnd(t *testing.T, root string, next int32) *servers.Cluster {
	cluster := servers.ZooKeeper(t, servers.JavaOptions(
		"-Dzookeeper.digest.enabled=false",                     // of the whole tree, in each snapshot
		"-Dzookeeper.serializeLastProcessedZxid.enabled=false", // nor that, as 3.9 does
		"-Dznode.container.checkIntervalMs=36000000",           // so that the line stays as it is
	))
	m := cluster.Member(0)
	admin := adminConn(t, cluster.Addrs())
	dir := root + "/a"
	for _, p := range []string{root, dir} {
		_, err := admin.CreateContainer(p, nil, gozk.FlagContainer, gozk.WorldACL(gozk.PermAll))
		require.NoError(t, err)
	}
	m.Restart(t) // a server writes a snapshot when it starts
	m.Kill()
	doctor(t, filepath.Join(m.Dir(), "data", "version-2"), dir, next)
	require.NoError(t, m.Start(t.Context()))
	return cluster
}

func doctor(t *testing.T, folder, node string, next int32) {
	all, err := filepath.Glob(filepath.Join(folder, "snapshot.*"))
	require.NoError(t, err)
	slices.SortFunc(all, func(a, b string) int { return len(a) - len(b) + bytes.Compare([]byte(a), []byte(b)) })
	last := all[len(all)-1]
	b, err := os.ReadFile(last)
	require.NoError(t, err)

	// A node: its path, its data, a reference to its rights, and what is known of it.
	at := bytes.Index(b, append(binary.BigEndian.AppendUint32(nil, uint32(len(node))), node...))
	require.Positive(t, at)
	at += 4 + len(node)
	if n := int32(binary.BigEndian.Uint32(b[at:])); n > 0 {
		at += int(n)
	}
	at += 4 + 8             // the length of the data, and the rights
	at += 8 + 8 + 8 + 8 + 4 // czxid, mzxid, ctime, mtime, version
	binary.BigEndian.PutUint32(b[at:], uint32(next))

	// It ends with a checksum of all before it, and "/".
	const seal = 8 + 4 + 1
	binary.BigEndian.PutUint64(b[len(b)-seal:], uint64(adler32.Checksum(b[:len(b)-seal])))
	require.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("snapshot.%x", int64(1)<<31+1000)), b, 0o644))
}

// ZOOKEEPER-3249: the counter no longer wraps, but it does not go on either.
func TestTheCounterSticksAtItsEnd(t *testing.T) {
	cluster := nearTheEnd(t, "/app", 1<<31-3)
	admin := adminConn(t, cluster.Addrs())
	var numbers []int32
	for range 5 {
		p, err := admin.Create("/app/a/"+contender{guid: newGUID(), kind: "lock"}.prefix(), nil, gozk.FlagEphemeralSequential, gozk.WorldACL(gozk.PermAll))
		require.NoError(t, err)
		c, ok := parseContender(filepath.Base(p))
		require.True(t, ok, p)
		numbers = append(numbers, c.seq)
	}
	require.Equal(t, []int32{1<<31 - 3, 1<<31 - 2, 1<<31 - 1, 1<<31 - 1, 1<<31 - 1}, numbers)
}

// A token may not be above the service's latest transaction, or the next directory's might be below it. Many nodes made in
// one transaction use up more numbers than transactions.
func TestTokensNeverGoBackThoughNumbersRanAhead(t *testing.T) {
	s := play(t)
	first, _ := s.join(s.sess, "lock")
	dir := s.root + "/a"
	for range 20 {
		var create, remove []any
		for i := range 100 {
			nodePath := fmt.Sprintf("%s/x%d", dir, i)
			create = append(create, &gozk.CreateRequest{Path: nodePath, Acl: gozk.WorldACL(gozk.PermAll)})
			remove = append(remove, &gozk.DeleteRequest{Path: nodePath, Version: -1})
		}
		_, err := s.admin.Multi(append(create, remove...)...)
		require.NoError(t, err)
	}
	s.leave(first, true)
	last := first.Node().Token
	for range 2 {
		me, ahead := s.join(s.sess, "lock")
		require.Empty(t, ahead)
		require.Greater(t, me.Node().Token, last)
		last = me.Node().Token
		s.leave(me, true)
		err := s.admin.Delete(dir, -1)
		if err != gozk.ErrNoNode { // it was swept
			require.NoError(t, err)
		}
	}
}

func TestALineNearItsEndBeginsAnew(t *testing.T) {
	cluster := nearTheEnd(t, "/conformance", 1<<31-1-lastNumbers-2)
	s := playOn(t, cluster, WithRoot("/conformance"))
	first, ahead := s.join(s.sess, "lock")
	require.Empty(t, ahead)
	second, ahead := s.join(s.sess, "lock")
	require.Len(t, ahead, 1)

	type joined struct {
		me    driver.Place
		ahead []driver.Node
		err   error
	}
	late := make(chan joined, 5)
	other := s.another(WithRoot("/conformance"))
	for range cap(late) {
		go func() {
			me, ahead, err := other.Join(s.ctx, entry("lock"))
			late <- joined{me, ahead, err}
		}()
	}
	_, _, err := other.Join(s.ctx, try(entry("lock")))
	require.ErrorIs(t, err, driver.ErrBusy)
	select {
	case j := <-late:
		t.Fatalf("joined beside those who have the last numbers: %+v", j)
	case <-time.After(200 * time.Millisecond):
	}

	s.leave(first, true)
	s.leave(second, true)
	seen := map[driver.Token]bool{}
	alone := 0
	for range cap(late) {
		j := <-late
		require.NoError(t, j.err)
		require.Greater(t, j.me.Node().Token, second.Node().Token)
		require.Less(t, seqOf(t, j.me.Node()), int32(100))
		require.False(t, seen[j.me.Node().Token])
		seen[j.me.Node().Token] = true
		if len(j.ahead) == 0 {
			alone++
		}
	}
	require.Equal(t, 1, alone)
}

// Whoever takes several lines holds none behind one that it waits for: it would wait in a circle with whoever has that one.
func TestWhoWaitsForALineToBeginAnewHoldsNoneBehindIt(t *testing.T) {
	s := play(t)
	link, _ := s.harness.wire(t)
	mine, other := coord.NewClient(s.link.Driver), coord.NewClient(link.Driver)
	first, err := rwlock.New(mine, "a").Lock(s.ctx)
	require.NoError(t, err)
	nodes, err := mine.Line(s.ctx, "a")
	require.NoError(t, err)
	c, ok := parseContender(path.Base(nodes[0].ID))
	require.True(t, ok)
	s.endsAt("a", c.seq+1)

	both := make(chan struct{})
	go func() {
		defer close(both)
		if h, err := multi.New(other, multi.Write("a"), multi.Write("b")).Lock(s.ctx); err == nil {
			_ = h.Release()
		}
	}()
	require.Eventually(t, func() bool {
		_, stat, err := s.admin.Exists(s.root + "/a")
		return err == nil && stat.Cversion > 2 // it has come to the first line and gone again
	}, time.Minute, time.Millisecond)
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	second, err := rwlock.New(mine, "b").Lock(ctx)
	require.NoError(t, err, "the two wait for each other")
	_ = second.Release() // on a busy machine they may be lost
	_ = first.Release()
	<-both
}

func seqOf(t *testing.T, n driver.Node) int32 {
	c, ok := parseContender(filepath.Base(n.ID))
	require.True(t, ok)
	return c.seq
}

// Two waiters at the very end that have the same number must not both go in.
func TestAtTheVeryEndNobodyIsLetInBesideAnother(t *testing.T) {
	cluster := nearTheEnd(t, "/conformance", 1<<31-1)
	s := playOn(t, cluster, WithRoot("/conformance"))
	tokens := driver.Token(0)
	for range 3 {
		me, ahead := s.join(s.sess, "lock")
		require.Empty(t, ahead)
		require.Greater(t, me.Node().Token, tokens)
		tokens = me.Node().Token
		s.leave(me, true)
	}
	require.Greater(t, tokens, driver.Token(1<<31))
}

func TestALineThatCannotBeginAnewSaysWhy(t *testing.T) {
	cluster := nearTheEnd(t, "/conformance", 1<<31-2)
	s := playOn(t, cluster, WithRoot("/conformance"))
	e := entry("lock")
	e.Line = "a/nested"
	_, _, err := s.sess.Join(s.ctx, e)
	require.NoError(t, err)
	_, _, err = s.sess.Join(s.ctx, entry("lock"))
	require.ErrorContains(t, err, "used up its numbers")
	require.ErrorContains(t, err, `"nested"`)
	require.Equal(t, []string{"nested"}, must(s.sess.conn.Children("/conformance/a"))(t))
}

func must(names []string, _ *gozk.Stat, err error) func(t *testing.T) []string {
	return func(t *testing.T) []string {
		require.NoError(t, err)
		return names
	}
}
