package zk

import (
	"path"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
)

// Each node is a read of its own. Where one leaves during each look, whoever waited for one without would see nothing.
func TestALineIsSeenWhileOthersComeAndGo(t *testing.T) {
	s := play(t)
	other := s.another()
	var paths []string
	for range 40 {
		me, _ := s.join(other, "R")
		paths = append(paths, me.Node().ID)
	}
	var lists atomic.Int32
	var listed, left atomic.Bool
	s.proxies[0].OnRequest(func(r zkwire.Request) zkwire.Verdict {
		switch {
		case r.Op == zkwire.GetChildren2:
			lists.Add(1)
			listed.Store(true)
		case r.Op == zkwire.GetData && listed.CompareAndSwap(true, false) && lists.Load() < 20:
			last := len(paths) - int(lists.Load())
			require.NoError(t, s.admin.Delete(paths[last], -1))
			left.Store(true)
		}
		return zkwire.Pass
	})
	look, err := s.sess.service.First(s.ctx, "a", driver.All, nil)
	require.NoError(t, err)
	require.True(t, left.Load())
	require.LessOrEqual(t, lists.Load(), int32(10))
	require.GreaterOrEqual(t, len(look.Nodes), 30)
	next, err := s.sess.service.First(s.ctx, "a", driver.All, &look)
	require.NoError(t, err)
	require.Greater(t, next.At, look.At)
}

// A view of what has changed while it was read is followed by another one, with a greater number.
func TestWhatChangesWhileItIsReadIsALaterView(t *testing.T) {
	s := play(t)
	other := s.another()
	var all [2]driver.Place
	for i := range all {
		all[i], _ = s.join(other, "R")
	}
	first, second := path.Base(all[0].Node().ID), path.Base(all[1].Node().ID)
	n := byte(0)
	for range 20 {
		var changed, read atomic.Bool
		s.proxies[0].OnRequest(func(r zkwire.Request) zkwire.Verdict {
			switch {
			case r.Op != zkwire.GetData || changed.Load():
			case path.Base(r.Path) == first:
				read.Store(true)
			case path.Base(r.Path) == second && read.Load():
				changed.Store(true)
				n++
				for _, p := range all {
					require.NoError(t, p.Amend(s.ctx, "R", []byte{n}))
				}
			}
			return zkwire.Pass
		})
		look, err := s.sess.service.First(s.ctx, "a", driver.All, nil)
		require.NoError(t, err)
		if !changed.Load() {
			continue
		}
		last, err := s.sess.service.First(s.ctx, "a", driver.All, nil)
		require.NoError(t, err)
		if !last.IsOf(look.Nodes) {
			require.Greater(t, last.At, look.At)
		}
		require.Equal(t, look.Nodes[0].Data, look.Nodes[1].Data, "both have been amended as often")
	}
}
