package zk

import (
	"math/rand/v2"
	"path"
	"slices"
	"strings"
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
		return &place{session: new(session), node: driver.Node{Line: "a"}, dir: dir, sight: sight, paths: []string{dir + "/" + names[5]}}
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

// An amendment that got no answer may still be applied while the next one is on its way: the node has moved, not gone.
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

// FuzzPick has the service list anything beside a place's own node.
func FuzzPick(f *testing.F) {
	guid := "0123456789abcdef0123456789abcdef"
	f.Add("_c_"+guid+"-lock-0000000003\n_c_x\n"+guid+"__rlock__0000000004", int32(4), uint8(1))
	f.Add("_c_"+guid+"-R--000000001\n_c_"+guid+"-S1of3--000000001\n", int32(-1), uint8(0))
	f.Fuzz(func(t *testing.T, list string, seq int32, nearest uint8) {
		const dir = "/app/a"
		me := contender{guid: newGUID(), kind: "lock", seq: seq}
		p := &place{node: driver.Node{Line: "a"}, dir: dir, sight: driver.Sight{Nearest: int(nearest)}, paths: []string{dir + "/" + me.name()}}
		names := append(strings.Split(list, "\n"), me.name())
		ahead, last, found := p.pick(&wire.Listing{Names: names, Born: 1000})
		if !found || len(ahead) > p.sight.Depth() {
			t.Fatalf("found %v, %v ahead", found, ahead)
		}
		for i, n := range ahead {
			c, ok := parseContender(path.Base(n.ID))
			if !ok || c.rank() > me.rank() || path.Dir(n.ID) != dir || i > 0 && n.Token < ahead[i-1].Token {
				t.Fatalf("ahead of %s: %v", me.name(), ahead)
			}
		}
		behind := slices.ContainsFunc(contenders(names), func(l listed) bool { return l.rank() > me.rank() })
		if last == behind {
			t.Fatalf("last is %v, with somebody behind: %v", last, behind)
		}
		var want []listed
		for _, l := range contenders(names) {
			if l.rank() < me.rank() || l.seq == me.seq && l.name != me.name() {
				want = append(want, l)
			}
		}
		if only := len(want) == 1; only != p.only {
			t.Fatalf("only %v, with %v ahead", p.only, want)
		}
		for i, l := range want[max(0, len(want)-p.sight.Depth()):] {
			if i >= len(ahead) || ahead[i].ID != dir+"/"+l.name {
				t.Fatalf("%v ahead, want %v", ahead, want)
			}
		}
		_ = me.twins(names)
		_ = amendedIn(names, me.name())
	})
}
