package zk

import (
	"path"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
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

// Whoever watches a thousand members reads the one that has come, or has changed, and not the thousand.
func TestAChangeOfAGroupIsReadAlone(t *testing.T) {
	s := play(t)
	other := s.another()
	var all []driver.Place
	for range 30 {
		me, _ := s.join(other, "R")
		all = append(all, me)
	}
	reads := func() int { return s.proxies[0].Requests(zkwire.GetData) }
	look, err := s.sess.service.First(s.ctx, "a", driver.All, nil)
	require.NoError(t, err)
	require.Len(t, look.Nodes, len(all))
	changed := func(most int, how string, change func()) {
		t.Helper()
		told := s.watchLine(look)
		before := reads()
		change()
		look = told()
		require.LessOrEqual(t, reads()-before, most, how)
	}
	data := func(i int) string {
		n := slices.IndexFunc(look.Nodes, func(n driver.Node) bool { return n.ID == all[i].Node().ID })
		require.GreaterOrEqual(t, n, 0)
		return string(look.Nodes[n].Data)
	}
	changed(len(all)+2, "nothing has been read under a watch so far", func() { all = append(all, first(s.join(other, "R"))) })
	for range 3 {
		changed(1, "one has come", func() { all = append(all, first(s.join(other, "R"))) })
		require.Len(t, look.Nodes, len(all))
		changed(2, "one says something else, which may be newer than the list", func() { require.NoError(t, all[4].Amend(s.ctx, "R", []byte(all[4].Node().ID))) })
		require.Equal(t, all[4].Node().ID, data(4))
		changed(1, "one has left, perhaps during a look", func() { s.leave(all[0], true) })
		all = all[1:]
		require.Len(t, look.Nodes, len(all))
	}

	s.Log("what changed while there was no connection is read, whatever was seen on the one before")
	told := s.watchLine(look)
	s.proxies[0].Refuse()
	s.proxies[0].Cut()
	require.NoError(t, all[7].Amend(s.ctx, "R", []byte("meanwhile")))
	s.proxies[0].Heal()
	look = told()
	require.Equal(t, "meanwhile", data(7))
}

func first[T, R any](t T, _ R) T { return t }

// watchLine waits for a change of line a since a look. It returns once everything has been read under a watch.
func (s *scene) watchLine(since driver.Look) func() driver.Look {
	s.Helper()
	told := make(chan driver.Look, 1)
	lists := s.proxies[0].Requests(zkwire.GetChildren2)
	go func() {
		look, err := s.sess.service.First(s.ctx, "a", driver.All, &since)
		if err != nil {
			s.Errorf("watching: %v", err)
		}
		told <- look
	}()
	require.Eventually(s, func() bool { return s.proxies[0].Requests(zkwire.GetChildren2) > lists }, patience, time.Millisecond)
	require.Eventually(s, func() bool { return s.knowsAll(since) }, patience, time.Millisecond)
	return func() driver.Look {
		s.Helper()
		select {
		case look := <-told:
			return look
		case <-time.After(patience):
			s.Fatal("who watches is not told")
			return driver.Look{}
		}
	}
}

// knowsAll reports whether the session of the scene would hear of any change of these nodes, and knows what they say.
func (s *scene) knowsAll(l driver.Look) bool {
	for _, n := range l.Nodes {
		if _, known := s.sess.watches.sight(n.ID, s.sess.usable.Load()); known == nil {
			return false
		}
	}
	return true
}

// What was read stands as long as the watch does under which it was read, and nothing was reported.
func TestWhatWasReadStandsUntilAChangeMayHaveBeenMissed(t *testing.T) {
	for _, c := range []struct {
		what  string
		since func(ws *watches, w *watch, over *wire.Conn)
		known bool
	}{
		{"nothing", func(*watches, *watch, *wire.Conn) {}, true},
		{"the same watch asked for once more", func(_ *watches, w *watch, _ *wire.Conn) {
			w.settings[ofData].begin(6)
			w.settings[ofData].pending = 0
		}, true},
		{"a watch under way", func(_ *watches, w *watch, _ *wire.Conn) { w.settings[ofData].begin(6) }, false},
		{"a change, with a watch since", func(ws *watches, w *watch, _ *wire.Conn) {
			ws.dataChanged(w.path)
			w.settings[ofData].set = true
		}, false},
		{"a time without a watch", func(_ *watches, w *watch, _ *wire.Conn) {
			w.settings[ofData].set = false
			w.settings[ofData].begin(9)
			w.settings[ofData].set, w.settings[ofData].pending = true, 0
		}, false},
		{"no watch any more", func(_ *watches, w *watch, _ *wire.Conn) { w.settings[ofData].set = false }, false},
		{"a deletion", func(ws *watches, w *watch, _ *wire.Conn) { ws.deleted(w.path) }, false},
		{"another connection", func(ws *watches, w *watch, over *wire.Conn) {
			ws.reconnected(over)
			w.settings[ofData].begin(9)
			w.settings[ofData].set, w.settings[ofData].pending = true, 0
		}, false},
		{"another connection that the watches have not heard of", func(ws *watches, _ *watch, _ *wire.Conn) { ws.over = nil }, false},
	} {
		over := new(wire.Conn)
		prepare := func() (*watches, *watch) {
			ws, w, _ := watched(lockPath("R"))
			ws.over = over
			w.settings[ofData].begin(7)
			w.settings[ofData].pending = 0
			return ws, w
		}
		ws, w := prepare()
		at, known := ws.sight(w.path, over)
		require.Nil(t, known)
		ws.keep(&seen{at: at, last: 7})
		_, known = ws.sight(w.path, over)
		require.NotNil(t, known)
		c.since(ws, w, over)
		_, known = ws.sight(w.path, over)
		require.Equal(t, c.known, known != nil, "since it was read: %s", c.what)

		ws, w = prepare()
		at, _ = ws.sight(w.path, over)
		c.since(ws, w, over)
		ws.keep(&seen{at: at, last: 7}) // the answer comes after that
		w.settings[ofData].pending = 0
		_, known = ws.sight(w.path, over)
		require.Equal(t, c.known || c.what == "a watch under way", known != nil, "while it was read: %s", c.what)
	}
}

func TestALargeNodeIsReadEachTime(t *testing.T) {
	ws, w, _ := watched(lockPath("R"))
	at, _ := ws.sight(w.path, nil)
	ws.keep(&seen{at: at, data: make([]byte, maxSeen+1)})
	_, known := ws.sight(w.path, nil)
	require.Nil(t, known)
}
