package zk

import (
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
)

// A write to a node, by an operator or by Curator's Revoker, wakes those behind it in vain.
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
				time.Sleep(10 * time.Millisecond)
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
				s.waitsOnFor(head, me, waiter)
				s.leave(me, false)
			}
		})
	}
}

// News that a slow link held back arrives all at once, whenever it happened.
func TestAWriteAndAnEndThatAreToldTogetherLetNobodyIn(t *testing.T) {
	s := play(t)
	other := s.another()
	head, _ := s.join(other, "lock")
	in, _ := s.join(other, "lock")
	me, ahead := s.join(s.sess, "lock")
	waiter := s.await(me, ahead...)
	s.isToldOf(in)
	thaw := s.freeze(drivertest.Replies)
	_, err := s.admin.Set(in.Node().ID, []byte("an operator was here"), -1)
	require.NoError(t, err)
	time.Sleep(50 * time.Millisecond)
	s.leave(in, false)
	thaw()
	w := s.answer(waiter)
	require.NoError(t, w.err)
	require.Len(t, w.ahead, 1, "the head still holds")
	require.Equal(t, head.Node().ID, w.ahead[0].ID)
	waiter = s.await(me, w.ahead...)
	s.leave(head, true)
	require.Empty(t, s.answer(waiter).ahead)
}

// A neighbour that may make nodes in the line may stand in it, and do to its own node whatever a departing holder does.
func TestANeighboursNodeLetsNobodyInBesideTheHolder(t *testing.T) {
	set := func(nodePath string) any { return &gozk.SetDataRequest{Path: nodePath, Version: -1} }
	del := func(nodePath string) any { return &gozk.DeleteRequest{Path: nodePath, Version: -1} }
	for how, leave := range map[string]func(*gozk.Conn, string) error{
		"deleted": func(c *gozk.Conn, nodePath string) error { return c.Delete(nodePath, -1) },
		"written to and deleted in one transaction": func(c *gozk.Conn, nodePath string) error {
			_, err := c.Multi(set(nodePath), del(nodePath))
			return err
		},
		"written to, then deleted": func(c *gozk.Conn, nodePath string) error {
			written := make(chan error, 1)
			go func() {
				_, err := c.Set(nodePath, nil, -1)
				written <- err
			}()
			time.Sleep(time.Millisecond)
			err := c.Delete(nodePath, -1)
			<-written
			return err
		},
	} {
		t.Run(how, func(t *testing.T) {
			s := play(t)
			holder := s.another()
			head, _ := s.join(holder, "lock")
			for range 5 {
				// A GUID like those of the time when turnwise trusted a checksum in them.
				planted, err := s.admin.Create(s.root+"/a/_c_000102030405060708090a0b7ace0037-lock-", nil,
					gozk.FlagEphemeralSequential, gozk.WorldACL(gozk.PermAll))
				require.NoError(t, err)
				me, ahead := s.join(s.sess, "lock")
				require.Equal(t, planted, ahead[0].ID)
				waiter := s.await(me, ahead...)
				s.isToldOfPath(planted)
				require.NoError(t, leave(s.admin, planted))
				s.waitsOnFor(head, me, waiter)
				s.leave(me, false)
			}
			s.leave(head, true)
		})
	}
}

// A node that changes its kind leaves its path. A waiter must not take that for its departure, whatever others do to the
// node at the time.
func TestAnAmendmentLetsNobodyIn(t *testing.T) {
	for _, also := range []string{"nothing", "a write before it", "a write, unheard"} {
		t.Run("and "+also, func(t *testing.T) {
			s := play(t)
			other := s.another()
			head, _ := s.join(other, "W")
			me, ahead := s.join(s.sess, "W")
			waiter := s.await(me, ahead...)
			s.isToldOf(head)
			thaw := func() {}
			if also != "nothing" {
				if also != "a write before it" {
					thaw = s.freeze(drivertest.Replies)
				}
				_, err := s.admin.Set(head.Node().ID, []byte("an operator was here"), -1)
				require.NoError(t, err)
			}
			require.NoError(t, head.Amend(s.ctx, "R", nil))
			thaw()
			for {
				w := s.answer(waiter)
				require.NoError(t, w.err)
				require.Len(t, w.ahead, 1, "it stands")
				if w.ahead[0].ID == head.Node().ID {
					break
				}
				waiter = s.await(me, w.ahead...) // told of the write alone
			}
			s.leave(head, true)
			s.leave(me, false)
		})
	}
}

// A hand-off takes no look if only one was ahead, or if a holder of the same client has left. Among several clients, the
// next waiter looks when its turn comes near, so it need not when its turn has come.
func TestAHandOffTakesNoLook(t *testing.T) {
	s := play(t)
	looks := func() int { return s.proxies[0].Requests(zkwire.GetChildren2) }
	other := s.another()
	first, _ := s.join(other, "lock")
	second, behindFirst := s.join(s.sess, "lock")
	third, behindSecond := s.join(s.sess, "lock")
	secondWaits := s.await(second, behindFirst...)
	s.isToldOf(first)
	thirdWaits := s.await(third, behindSecond...)
	s.isToldOf(second)
	before := looks()
	s.leave(first, true)
	require.Empty(t, s.answer(secondWaits).ahead)
	s.leave(second, true)
	require.Empty(t, s.answer(thirdWaits).ahead)
	require.Equal(t, before, looks())

	fourth, _ := s.join(other, "lock")
	fifth, _ := s.join(other, "lock")
	sixth, behindFifth := s.join(s.sess, "lock")
	sixthWaits := s.await(sixth, behindFifth...)
	s.isToldOf(fifth)
	s.isToldOf(fourth)
	before = looks()
	s.leave(third, true)
	time.Sleep(50 * time.Millisecond)
	require.Equal(t, before, looks(), "its turn is not near")
	s.leave(fourth, true)
	require.Eventually(t, func() bool { return looks() == before+1 }, patience, time.Millisecond)
	select {
	case w := <-sixthWaits:
		t.Fatalf("%v ahead, error %v", w.ahead, w.err)
	case <-time.After(50 * time.Millisecond):
	}
	s.leave(fifth, true)
	w := s.answer(sixthWaits)
	require.NoError(t, w.err)
	require.Empty(t, w.ahead)
	require.Equal(t, before+1, looks())
	s.leave(sixth, true)
}

// If the one right ahead leaves before that look is done, the look shows it.
func TestAHandOffDuringTheEarlyLook(t *testing.T) {
	s := play(t)
	other := s.another()
	for range 10 {
		first, _ := s.join(other, "lock")
		second, _ := s.join(other, "lock")
		me, ahead := s.join(s.sess, "lock")
		waiter := s.await(me, ahead...)
		s.isToldOf(first)
		s.isToldOf(second)
		before := s.proxies[0].Requests(zkwire.GetChildren2)
		s.leave(first, true)
		s.leave(second, true)
		w := s.answer(waiter)
		require.NoError(t, w.err)
		require.Empty(t, w.ahead)
		require.LessOrEqual(t, s.proxies[0].Requests(zkwire.GetChildren2)-before, 1)
		s.leave(me, true)
	}
}

// A rule that sees everybody may wait for a node that is not right ahead.
func TestAHolderFurtherAheadLetsNobodyIn(t *testing.T) {
	s := play(t)
	head, _ := s.join(s.sess, "lock")
	in, _ := s.join(s.another(), "lock")
	e := entry("lock")
	e.Sight.Nearest = driver.All
	me, ahead, err := s.sess.Join(s.ctx, e)
	require.NoError(t, err)
	waiter := s.await(me, ahead[0])
	s.isToldOf(head)
	s.leave(head, true)
	w := s.answer(waiter)
	require.NoError(t, w.err)
	require.Len(t, w.ahead, 1)
	require.Equal(t, in.Node().ID, w.ahead[0].ID)
}

func TestAWaiterHearsHoweverTheNodeAheadLeavesOrChanges(t *testing.T) {
	s := play(t)
	other := s.another()
	behind := func(how func(driver.Place)) woken {
		head, _ := s.join(other, "W")
		me, ahead := s.join(s.sess, "W")
		waiter := s.await(me, ahead...)
		s.isToldOf(head)
		how(head)
		w := s.answer(waiter)
		require.NoError(t, w.err)
		_ = head.Leave(s.ctx, false)
		s.leave(me, false)
		return w
	}
	require.Empty(t, behind(func(p driver.Place) { s.leave(p, true) }).ahead)
	require.Empty(t, behind(func(p driver.Place) { s.leave(p, false) }).ahead)
	require.Empty(t, behind(func(p driver.Place) { require.NoError(t, s.link.Remove(s.ctx, p.Node())) }).ahead)
	w := behind(func(p driver.Place) { require.NoError(t, p.Amend(s.ctx, "R", nil)) })
	require.Len(t, w.ahead, 1)
	require.Equal(t, "R", w.ahead[0].Kind)
}

// The removal of a waiter's own node must be noticed even after a write to it.
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

// There is one watch for each node, however many wait for it, and watches do not pile up.
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
		return len(readers.watches.all) == 51 && entry.settings[ofData].set && own != nil && own.settings[ofChildren].set
	}, patience, time.Millisecond)
	s.leave(w, true)
	for _, a := range answers {
		require.NoError(t, s.answer(a).err)
	}
	require.NoError(t, readers.Close(s.ctx))
}

// Each join lists the line once, together with the create: not before it, nor again later.
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
	renewals := s.proxies[0].Requests(zkwire.Multi) // on a busy machine
	require.Equal(t, 3*rounds, s.proxies[0].Requests()-renewals)
	s.leave(stays, true)
}

// An occasional look makes up for a watch that is lost, for whatever reason.
func TestAMissedEventIsFoundOut(t *testing.T) {
	s := play(t, WithTTL(time.Second))
	other := s.another()
	head, _ := s.join(other, "lock")
	me, ahead := s.join(s.sess, "lock")
	waiter := s.await(me, ahead...)
	s.isToldOf(head)
	s.sess.watches.mu.Lock()
	s.sess.watches.all["/nowhere"] = s.sess.watches.all[head.Node().ID]
	delete(s.sess.watches.all, head.Node().ID) // the event will reach nobody
	s.sess.watches.mu.Unlock()
	s.leave(head, true)
	w := s.answer(waiter)
	require.NoError(t, w.err)
	require.Empty(t, w.ahead)
}
