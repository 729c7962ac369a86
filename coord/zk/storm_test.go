package zk

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
	"github.com/turnwise/turnwise/verify/servers"
)

// Lists of a long line take longer than a server may be silent; but it is not silent.
func TestManyWhoJoinALongLineDoNotBreakTheConnection(t *testing.T) {
	const ahead, joins, ttl = 20_000, 200, 2 * time.Second
	s := play(t)
	s.crowd(ahead, func(i int) string { return contender{guid: newGUID(), kind: "lock", seq: int32(i)}.name() })
	d, err := newService(s.cluster.Addrs(), []Option{WithTTL(ttl), WithRoot(s.root)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close(s.ctx) })
	ds, err := d.Open(s.ctx)
	require.NoError(t, err)
	sess := ds.(*session)
	e := entry("lock")
	e.Line = "held"
	_, _, err = sess.Join(s.ctx, e)
	require.NoError(t, err)
	connection := sess.latest()

	start := time.Now()
	late := time.Duration(0)
	over := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
				late = max(late, time.Since(sess.Deadline()))
			}
		}
	})
	var joined sync.WaitGroup
	for range joins {
		joined.Go(func() {
			_, ahead, err := sess.Join(s.ctx, entry("lock"))
			if err != nil || len(ahead) != 1 {
				t.Error(ahead, err)
			}
		})
	}
	joined.Wait()
	close(over)
	all.Wait()
	t.Logf("%d joined in %v; a hold would have been lost for %v", joins, time.Since(start).Round(time.Millisecond), late)
	require.Same(t, connection, sess.latest(), "the connection was given up though it delivered")
	require.Zero(t, late, "holds were lost")
}

// crowd puts nodes into a line, of names by their number.
func (s *scene) crowd(n int, name func(i int) string) {
	s.Helper()
	dir := s.path("a")
	s.mkdir(s, dir)
	for first := 0; first < n; first += 1000 {
		var ops []any
		for i := first; i < first+1000; i++ {
			ops = append(ops, &gozk.CreateRequest{Path: dir + "/" + name(i), Acl: gozk.WorldACL(gozk.PermAll)})
		}
		_, err := s.admin.Multi(ops...)
		require.NoError(s, err)
	}
}

// A server needs several times the memory that a list takes, and there may be a hundred who want one.
func TestManyWhoJoinALongLineShareItsLists(t *testing.T) {
	const foreign, joins = 60_000, 100
	s := playOn(t, servers.ZooKeeper(t, servers.Heap("128m")))
	s.crowd(foreign, func(i int) string { return fmt.Sprintf("somebody-elses-node-of-a-rather-long-name-%d", i) })
	connection, connections := s.sess.latest(), s.accepted()
	before := s.proxies[0].Requests(zkwire.GetChildren2)
	places := make(chan driver.Place, joins)
	var all sync.WaitGroup
	for range joins {
		all.Go(func() {
			me, _, err := s.sess.Join(s.ctx, entry("lock"))
			if err != nil {
				t.Error(err)
			}
			places <- me
		})
	}
	all.Wait()
	lists := s.proxies[0].Requests(zkwire.GetChildren2) - before
	t.Logf("%d joined with %d lists", joins, lists)
	require.LessOrEqual(t, lists, joins/5)
	require.Same(t, connection, s.sess.latest())
	require.Equal(t, connections, s.accepted(), "a connection was lost")
	close(places)
	var tokens []driver.Token
	for me := range places {
		tokens = append(tokens, me.Node().Token)
	}
	slices.Sort(tokens)
	require.Len(t, slices.Compact(tokens), joins)
}

// Whoever shares a list finds in it all who came before.
func TestASharedListIsAskedForAfterAllWhoShareIt(t *testing.T) {
	s := play(t)
	heal := s.link.Delay(3 * time.Millisecond)
	defer heal()
	const joins = 300
	before := s.proxies[0].Requests(zkwire.GetChildren2)
	type view struct {
		me    driver.Node
		ahead []driver.Node
	}
	views := make(chan view, joins)
	var all sync.WaitGroup
	for i := range joins {
		all.Go(func() {
			time.Sleep(time.Duration(i) * 100 * time.Microsecond)
			me, ahead, err := s.sess.Join(s.ctx, entry("lock"))
			if err != nil {
				t.Error(err)
				return
			}
			views <- view{me.Node(), ahead}
		})
	}
	all.Wait()
	close(views)
	byToken := make(map[driver.Token]view)
	var tokens []driver.Token
	for v := range views {
		byToken[v.me.Token] = v
		tokens = append(tokens, v.me.Token)
	}
	slices.Sort(tokens)
	require.Len(t, tokens, joins)
	require.Empty(t, byToken[tokens[0]].ahead)
	for i, token := range tokens[1:] {
		ahead := byToken[token].ahead
		require.Len(t, ahead, 1)
		require.Equal(t, byToken[tokens[i]].me.ID, ahead[0].ID, "nobody has left, so it is the one right ahead")
	}
	lists := s.proxies[0].Requests(zkwire.GetChildren2) - before
	t.Logf("%d joined with %d lists", joins, lists)
	require.Less(t, lists, joins, "none was asked for twice")
}
