package zk

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
)

// Whoever writes to a node, be it an operator or Curator's Revoker, does half of what a departing holder does. If a
// write alone were taken for the mark, a crash after it would make two holders.
func TestAnOperatorsWriteLetsNobodyIn(t *testing.T) {
	for _, how := range []string{"gives up", "dies", "is removed"} {
		t.Run("and the node "+how, func(t *testing.T) {
			s := play(t)
			middle, last := s.another(), s.another()
			head, _ := s.join(s.sess, "lock")
			for i := range 5 {
				in, _ := s.join(middle, "lock")
				me, ahead := s.join(last, "lock")
				require.Equal(t, in.Node().ID, ahead[0].ID)
				waiter := s.await(me, ahead...)
				time.Sleep(20 * time.Millisecond)
				_, err := s.admin.Set(in.Node().ID, []byte("an operator was here"), -1)
				require.NoError(t, err)
				time.Sleep(2 * markLife)
				w := s.answer(waiter)
				require.NoError(t, w.err)
				require.NotEmpty(t, w.ahead, "nobody has left")
				waiter = s.await(me, w.ahead...)
				time.Sleep(time.Duration(i) * 5 * time.Millisecond)
				switch how {
				case "gives up":
					s.leave(in, false)
				case "dies":
					s.expire(t, middle)
					middle = s.another()
				case "is removed":
					require.NoError(t, s.link.Remove(s.ctx, in.Node()))
				}
				for {
					w := s.answer(waiter)
					require.NoError(t, w.err)
					require.NotEmpty(t, w.ahead, "the head still holds")
					if w.ahead[0].ID == head.Node().ID {
						break
					}
					waiter = s.await(me, w.ahead...)
				}
				s.leave(me, false)
			}
		})
	}
}

func TestWhatBecameOfTheNodeAheadIsTold(t *testing.T) {
	s := play(t)
	other := s.another()
	behind := func(how func(driver.Place)) woken {
		head, _ := s.join(other, "W")
		me, ahead := s.join(s.sess, "W")
		waiter := s.await(me, ahead...)
		require.Eventually(t, func() bool {
			s.sess.watches.mu.Lock()
			defer s.sess.watches.mu.Unlock()
			w := s.sess.watches.all[head.Node().ID]
			return w != nil && w.settings[ofData].armed() && w.settings[ofChildren].armed()
		}, patience, time.Millisecond)
		how(head)
		w := s.answer(waiter)
		require.NoError(t, w.err)
		_ = head.Leave(s.ctx, false)
		s.leave(me, false)
		return w
	}
	require.Equal(t, driver.HandedOn, behind(func(p driver.Place) { s.leave(p, true) }).how)
	require.Equal(t, driver.Gone, behind(func(p driver.Place) { s.leave(p, false) }).how)
	require.Equal(t, driver.Gone, behind(func(p driver.Place) { require.NoError(t, s.link.Remove(s.ctx, p.Node())) }).how)
	w := behind(func(p driver.Place) { require.NoError(t, p.Amend(s.ctx, "R", nil)) })
	require.Equal(t, driver.Amended, w.how)
	require.Equal(t, "R", w.ahead[0].Kind)
}

// After a write to one's own node, its removal must still be noticed.
func TestTheOwnNodeIsWatchedAfterAWriteToo(t *testing.T) {
	s := play(t)
	for _, kind := range []string{"lock", "lead"} {
		me, _ := s.join(s.sess, kind)
		holder := s.watch(me)
		for range 3 {
			time.Sleep(20 * time.Millisecond)
			_, err := s.admin.Set(me.Node().ID, []byte("an operator was here"), -1)
			require.NoError(t, err)
		}
		time.Sleep(20 * time.Millisecond)
		start := time.Now()
		require.NoError(t, s.admin.Delete(me.Node().ID, -1))
		require.ErrorIs(t, s.answer(holder).err, driver.ErrRemoved)
		require.Less(t, time.Since(start), time.Second)
	}
}

// One watch for each node, however many wait for it, and no watches that pile up.
func TestWaitersShareTheirWatches(t *testing.T) {
	s := play(t)
	w, _ := s.join(s.sess, "W")
	readers := s.another()
	var answers []<-chan woken
	var last driver.Place
	for range 50 {
		me, _, err := readers.Join(s.ctx, driver.Entry{Line: "a", Kind: "R", Sight: driver.Sight{Ignore: []string{"R"}}})
		require.NoError(t, err)
		answers = append(answers, s.await(me, w.Node()))
		last = me
	}
	require.Eventually(t, func() bool {
		readers.watches.mu.Lock()
		defer readers.watches.mu.Unlock()
		entry := readers.watches.all[w.Node().ID]
		own := readers.watches.all[last.Node().ID]
		return len(readers.watches.all) == 51 && entry.settings[ofData].set && entry.settings[ofChildren].set && own != nil && own.settings[ofChildren].set
	}, patience, time.Millisecond)
	s.leave(w, true)
	for _, a := range answers {
		require.NoError(t, s.answer(a).err)
	}
	require.NoError(t, readers.Close(s.ctx))
}

// The list travels with the create: never behind it, and never before.
func TestTheListIsSentBehindTheCreate(t *testing.T) {
	s := play(t)
	stays, _ := s.join(s.sess, "lock")
	s.proxies[0].Reset()
	const rounds = 100
	for range rounds {
		me, _ := s.join(s.sess, "lock")
		s.leave(me, false)
	}
	require.Equal(t, rounds, s.proxies[0].Requests(zkwire.Create))
	require.Equal(t, rounds, s.proxies[0].Requests(zkwire.GetChildren2))
	require.Equal(t, 3*rounds, s.proxies[0].Requests())
	s.leave(stays, true)
}

// A look now and then makes up for a watch that is lost, for whatever reason.
func TestAMissedEventIsFoundOut(t *testing.T) {
	s := play(t, WithTTL(time.Second))
	other := s.another()
	head, _ := s.join(other, "lock")
	me, ahead := s.join(s.sess, "lock")
	waiter := s.await(me, ahead...)
	require.Eventually(t, func() bool {
		s.sess.watches.mu.Lock()
		defer s.sess.watches.mu.Unlock()
		w := s.sess.watches.all[head.Node().ID]
		return w != nil && w.settings[ofData].set && w.settings[ofChildren].set
	}, patience, time.Millisecond)
	s.sess.watches.mu.Lock()
	s.sess.watches.all["/nowhere"] = s.sess.watches.all[head.Node().ID]
	delete(s.sess.watches.all, head.Node().ID) // the event will find nobody
	s.sess.watches.mu.Unlock()
	s.leave(head, true)
	w := s.answer(waiter)
	require.NoError(t, w.err)
	require.Empty(t, w.ahead)
}
