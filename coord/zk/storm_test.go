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

// crowd puts n nodes into a line; name gives the name for each number. Each takes a transaction, since a line whose numbers
// run ahead of the transactions starts over.
func (s *scene) crowd(n int, name func(i int) string) {
	s.Helper()
	dir := s.path("a")
	s.mkdir(s, dir)
	var all sync.WaitGroup
	const hands = 64
	for hand := range hands {
		all.Go(func() {
			for i := hand; i < n; i += hands {
				if _, err := s.admin.Create(dir+"/"+name(i), nil, 0, gozk.WorldACL(gozk.PermAll)); err != nil {
					s.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// For each list a server needs several times the memory of the list itself, and a hundred joins may want one. Those lists
// once took longer than a server may be silent: connections were given up over and over, and holds with them.
func TestManyWhoJoinALongLineShareItsLists(t *testing.T) {
	const ahead, joins = 30_000, 100
	s := playOn(t, servers.ZooKeeper(t, servers.Heap("128m")), WithTTL(30*time.Second))
	s.crowd(ahead, func(i int) string {
		if i%2 == 0 {
			return fmt.Sprintf("somebody-elses-node-of-a-rather-long-name-%d", i)
		}
		return contender{guid: newGUID(), kind: "lock", seq: int32(i)}.name()
	})
	connection, connections := s.sess.latest(), s.accepted()
	before := s.proxies[0].Requests(zkwire.GetChildren2)
	places := make(chan driver.Place, joins)
	var all sync.WaitGroup
	for range joins {
		all.Go(func() {
			me, ahead, err := s.sess.Join(s.ctx, entry("lock"))
			if err != nil || len(ahead) != 1 {
				t.Error(ahead, err)
			}
			places <- me
		})
	}
	all.Wait()
	lists := s.proxies[0].Requests(zkwire.GetChildren2) - before
	t.Logf("%d joined with %d lists", joins, lists)
	require.LessOrEqual(t, lists, joins/5)
	require.True(t, connection == s.sess.latest(), "the connection was given up")
	require.Equal(t, connections, s.accepted(), "a connection was lost")
	close(places)
	var tokens []driver.Token
	for me := range places {
		tokens = append(tokens, me.Node().Token)
	}
	slices.Sort(tokens)
	require.Len(t, slices.Compact(tokens), joins)
}

// Everybody who shares a list finds in it all who came before.
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
