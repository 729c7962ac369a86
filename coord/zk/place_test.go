package zk

import (
	"math/rand/v2"
	"path"
	"sync"
	"testing"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
)

func TestTheNearestAheadIsFoundInAnyOrder(t *testing.T) {
	const dir = "/app/a"
	var names []string
	kinds := []string{"R", "W", "R", "lock", "R", "R", "W"}
	for i, kind := range kinds {
		names = append(names, contender{guid: newGUID(), kind: kind, seq: int32(i)}.name())
	}
	me := func(sight driver.Sight) *place {
		return &place{node: driver.Node{Line: "a"}, dir: dir, sight: sight, paths: []string{dir + "/" + names[5]}}
	}
	for range 20 {
		mixed := append([]string{"foreign", "_c_x"}, names...)
		rand.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })

		p := me(driver.Sight{})
		ahead, last, ok := p.pick(&wire.Listing{Names: mixed, Born: 1000})
		require.True(t, ok)
		require.False(t, last)
		require.Equal(t, []driver.Node{{Line: "a", ID: dir + "/" + names[4], Kind: "R", Token: 1004}}, ahead)
		require.False(t, p.letsIn(ahead[0].ID, false), "others are ahead")
		require.True(t, p.letsIn(ahead[0].ID, true))
		require.False(t, p.letsIn(dir+"/"+names[3], true), "it is not right ahead")

		ahead, _, ok = me(driver.Sight{Ignore: []string{"R"}}).pick(&wire.Listing{Names: mixed, Born: 1000})
		require.True(t, ok)
		require.Equal(t, []driver.Node{{Line: "a", ID: dir + "/" + names[3], Kind: "lock", Token: 1003}}, ahead)

		ahead, _, ok = me(driver.Sight{Nearest: driver.All, Ignore: []string{"R"}}).pick(&wire.Listing{Names: mixed, Born: 1000})
		require.True(t, ok)
		require.Len(t, ahead, 2)
		require.Equal(t, "W", ahead[0].Kind)
	}
	p := me(driver.Sight{Ignore: []string{"R", "lock"}})
	ahead, _, ok := p.pick(&wire.Listing{Names: names, Born: 1000})
	require.True(t, ok)
	require.True(t, p.letsIn(ahead[0].ID, false), "it is the only one within sight")
	_, last, ok := me(driver.Sight{}).pick(&wire.Listing{Names: names[:6], Born: 1000})
	require.True(t, ok)
	require.True(t, last, "nobody is behind")
	_, _, ok = me(driver.Sight{}).pick(&wire.Listing{Names: names[:5], Born: 1000})
	require.False(t, ok, "I am not in the list")
}

// An amendment that had no answer may still be done while the next one is on its way: the node has moved, not gone.
func TestAnAmendmentFindsANodeThatAnEarlierOneMoves(t *testing.T) {
	s := play(t)
	me, _ := s.join(s.sess, "W")
	p, before := me.(*place), me.Node().ID
	c, _ := parseContender(path.Base(before))
	c.kind, c.guid = "R", newGUID()
	after := path.Dir(before) + "/" + c.name()
	p.amending(after)
	var once sync.Once
	s.proxies[0].OnRequest(func(r zkwire.Request) zkwire.Verdict {
		if r.Op == zkwire.Multi && r.Path == before {
			once.Do(func() {
				_, err := s.admin.Multi(
					&gozk.CreateRequest{Path: after, Flags: gozk.FlagEphemeral, Acl: gozk.WorldACL(gozk.PermAll)},
					&gozk.DeleteRequest{Path: before, Version: -1})
				if err != nil {
					t.Error(err)
				}
			})
		}
		return zkwire.Pass
	})
	require.NoError(t, me.Amend(s.ctx, "R", []byte("data")))
	nodes, err := s.link.Line(s.ctx, "a")
	require.NoError(t, err)
	require.Len(t, nodes, 1)
	require.Equal(t, after, nodes[0].ID)
	require.Equal(t, "data", string(nodes[0].Data))
	s.leave(me, true)
	require.Empty(t, s.stored(t, "a"))
}
