package zk

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
	"github.com/turnwise/turnwise/verify/servers"
)

// The client library sleeps for a second after each round of servers, so a session of one second would not survive a cut of
// 200 ms (go-zookeeper, conn.go: connect).
func TestAShortSessionSurvivesAShortCut(t *testing.T) {
	s := play(t, WithTTL(time.Second))
	me, _ := s.join(s.sess, "lock")
	for range 5 {
		heal := s.cut()
		time.Sleep(200 * time.Millisecond)
		heal()
		start := time.Now()
		there, err := s.sess.exists(s.ctx, me.Node().ID)
		require.NoError(t, err)
		require.True(t, there)
		require.Less(t, time.Since(start), 800*time.Millisecond)
		require.True(t, time.Now().Before(s.sess.Deadline()), "and no hold is lost")
		time.Sleep(300 * time.Millisecond)
	}
}

// The client library waits 28 s for a server that does not answer its authentication (go-zookeeper, conn.go:
// authenticate), and loses the session although other servers would have answered.
func TestAFrozenMemberCostsNoSession(t *testing.T) {
	cluster := servers.ZooKeeper(t, servers.Members(3))
	s := playOn(t, cluster, WithTTL(10*time.Second))
	me, _ := s.join(s.sess, "lock")
	for range 2 {
		addr := s.sess.latest().Server
		var frozen *servers.Member
		for i, p := range s.proxies {
			if p.Addr() == addr {
				frozen = cluster.Member(i)
			}
		}
		frozen.Freeze()
		start := time.Now()
		there, err := s.sess.exists(s.ctx, me.Node().ID)
		t.Logf("answered by another member after %v", time.Since(start))
		frozen.Thaw()
		require.NoError(t, err)
		require.True(t, there, "the session lives")
		require.True(t, time.Now().Before(s.sess.Deadline()), "the deadline has not passed")
		time.Sleep(time.Second) // until the three agree again
	}
}

// A server may grant less than was asked for, and then counts by that.
func TestTheSessionLastsAsLongAsWasGranted(t *testing.T) {
	s := playOn(t, servers.ZooKeeper(t, servers.Config("maxSessionTimeout=1500")), WithTTL(time.Minute))
	s.join(s.sess, "lock")
	defer s.freeze(drivertest.Both)()
	require.Eventually(t, func() bool { return len(s.stored(t, "a")) == 0 }, patience, time.Millisecond)
	require.True(t, s.sess.renewal.deadline.Passed(), "the node has gone, and the deadline passes in %v", time.Until(s.sess.Deadline()))
}

// The first check whether the session needs renewing must go by the timeout that was granted, not by the one asked for.
func TestASessionIsRenewedAsOftenAsWasGranted(t *testing.T) {
	s := playOn(t, servers.ZooKeeper(t, servers.Config("maxSessionTimeout=3000")), WithTTL(time.Hour))
	s.join(s.sess, "lock")
	for start := time.Now(); time.Since(start) < 4*time.Second; time.Sleep(10 * time.Millisecond) {
		require.False(t, s.sess.renewal.deadline.Passed(), "after %v", time.Since(start))
	}
}

// When a session has expired, the client library carries on with a new one and sends it what was queued: 8 of 8 creates,
// with two servers to choose from.
func TestNothingIsDoneInTheSessionAfter(t *testing.T) {
	for range 4 {
		s := play(t, WithTTL(time.Second))
		s.join(s.sess, "lock")
		thaw := s.freeze(drivertest.Both)
		joins := make(chan error, 10)
		for range cap(joins) {
			go func() {
				_, _, err := s.sess.Join(s.ctx, entry("lock"))
				joins <- err
			}()
		}
		time.Sleep(20 * time.Millisecond)
		s.expire(t, s.sess)
		heal := s.cut() // otherwise they would reach the server on the old connection
		thaw()
		old := s.proxies[0].Accepted()
		var done atomic.Int64
		s.proxies[0].OnRequest(func(r zkwire.Request) zkwire.Verdict {
			if r.Conn > old && r.Op != zkwire.Ping && r.Op != zkwire.CloseSession {
				done.Add(1)
			}
			return zkwire.Pass
		})
		heal()
		for range cap(joins) {
			require.ErrorIs(t, <-joins, driver.ErrSessionEnded)
		}
		<-s.sess.quiet
		require.Zero(t, done.Load(), "requests on connections made since")
		require.Empty(t, s.stored(t, "a"))
	}
}

// A follower tells the leader only now and then whom it has heard from. If it dies in between, the leader counts from an
// earlier time than we know of.
func TestTheDeadlineIsEarlyEnoughWhenAFollowerDies(t *testing.T) {
	const ttl = 2 * time.Second
	cluster := servers.ZooKeeper(t, servers.Members(3), servers.Tick(400*time.Millisecond))
	h := newHarness(t, cluster)
	leader := cluster.Leader(t)
	for round := range 3 {
		h.admin = adminConn(t, []string{leader.Addr()})
		var follower *servers.Member
		for _, m := range cluster.Members() {
			if m != leader {
				follower = m
			}
		}
		p := zkwire.Start(t, follower.Addr())
		d, err := newService([]string{p.Addr()}, []Option{WithTTL(ttl), WithRoot(h.root)})
		require.NoError(t, err)
		ds, err := d.Open(context.Background())
		require.NoError(t, err)
		me, _, err := ds.Join(context.Background(), entry("lock"))
		require.NoError(t, err)
		time.Sleep(time.Duration(round) * 170 * time.Millisecond)
		before := ds.Deadline()
		for !ds.Deadline().After(before) { // until it was renewed just now
			time.Sleep(time.Millisecond)
		}
		follower.Kill()
		p.Refuse()

		require.Eventually(t, func() bool {
			there, _, err := h.admin.Exists(me.Node().ID)
			return err == nil && !there
		}, patience, time.Millisecond)
		require.Greater(t, time.Since(ds.Deadline()), time.Duration(0), "the service was faster")
		t.Logf("the node went %v after the deadline", time.Since(ds.Deadline()))
		ds.Abandon(t.Context())
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		require.NoError(t, d.Close(ctx))
		cancel()
		follower.Restart(t)
	}
}

// greetAndAnswer is a server that has read a connect request. It greets, and answers each later request with the frame that
// reply returns; nil: not at all. It returns when the connection has ended.
func greetAndAnswer(c net.Conn, timeout time.Duration, reply func(xid int, op int32) []byte) {
	_, err := c.Write(zkwire.Frame(0, int(timeout.Milliseconds()), int64(42), password, false))
	for err == nil {
		var r []byte
		if r, err = zkwire.ReadFrame(c); err == nil {
			_, err = c.Write(reply(int(int32(binary.BigEndian.Uint32(r))), int32(binary.BigEndian.Uint32(r[4:]))))
		}
	}
}

// emptily is how a server answers that has no nodes.
func emptily(xid int, op int32) []byte {
	if xid == -2 || op == -11 || op == 101 {
		return zkwire.Frame(xid, int64(1), 0)
	}
	return zkwire.Frame(xid, int64(1), -101) // no such node
}

// openAt opens a session at a server of the test's own.
func openAt(t *testing.T, addr string, timeout time.Duration) *session {
	d, err := newService([]string{addr}, []Option{WithTTL(timeout)})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	t.Cleanup(func() { require.NoError(t, d.Close(ctx)) })
	s, err := d.Open(ctx)
	require.NoError(t, err)
	return s.(*session)
}

// findsNothing makes a request, and waits for the answer of emptily.
func findsNothing(t *testing.T, s *session) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := s.children(ctx, "/a")
	require.ErrorIs(t, err, gozk.ErrNoNode)
}

// A follower that has lost its leader answers only pings.
func TestAServerThatAnswersPingsAloneIsLeft(t *testing.T) {
	const timeout = 2 * time.Second
	var connections atomic.Int64
	addr := listen(t, func(c net.Conn) {
		if _, err := zkwire.ReadFrame(c); err != nil {
			return
		}
		if connections.Add(1) > 1 {
			greetAndAnswer(c, timeout, emptily)
			return
		}
		greetAndAnswer(c, timeout, func(xid int, op int32) []byte {
			switch {
			case xid == -2, op == -11:
				return zkwire.Frame(xid, int64(1), 0)
			case op == 3: // exists, as the session begins
				return zkwire.Frame(xid, int64(1), 0, int64(0), int64(0), int64(0), int64(0), 0, 0, 0, int64(0), 0, 0, int64(0))
			}
			return nil
		})
	})
	s := openAt(t, addr, timeout)
	s.roster.standing.Store(1)
	start := time.Now()
	findsNothing(t, s)
	require.EqualValues(t, 2, connections.Load())
	t.Logf("left after %v", time.Since(start))
	require.Greater(t, time.Since(start), timeout*3/10)
	require.True(t, time.Now().Before(s.Deadline()))
}

// Such a server says so and hangs up (ZooKeeper before 3.6), so a client that asked on each connection would never keep
// one.
func TestAServerThatListsNoSessionsNodesIsNotAskedAgain(t *testing.T) {
	const timeout = 4 * time.Second
	var connections, asked atomic.Int64
	first := make(chan net.Conn, 1)
	addr := listen(t, func(c net.Conn) {
		if connections.Add(1) == 1 {
			first <- c
		}
		if _, err := zkwire.ReadFrame(c); err != nil {
			return
		}
		greetAndAnswer(c, timeout, func(xid int, op int32) []byte {
			if op != 103 {
				return emptily(xid, op)
			}
			asked.Add(1)
			_, _ = c.Write(zkwire.Frame(xid, int64(1), -6))
			_ = c.Close()
			return nil
		})
	})
	s := openAt(t, addr, timeout)
	(<-first).Close()
	require.Eventually(t, func() bool { return connections.Load() == 3 }, patience, time.Millisecond)
	findsNothing(t, s)
	time.Sleep(100 * time.Millisecond)
	require.EqualValues(t, 3, connections.Load())
	require.EqualValues(t, 1, asked.Load())
}

// A session with nodes in line must be vouched for as soon as there is a connection again: much of its time may have
// passed.
func TestAfterACutTheServiceIsAskedToVouchAtOnce(t *testing.T) {
	s := play(t, WithTTL(time.Minute))
	reconnect := func() (asked func() bool) {
		before := s.proxies[0].Requests(zkwire.Multi)
		s.cut()()
		return func() bool { return s.proxies[0].Requests(zkwire.Multi) > before }
	}
	me, _ := s.join(s.sess, "lock")
	joined, asked := time.Now(), reconnect()
	require.Eventually(t, asked, patience, time.Millisecond)
	require.Less(t, time.Since(joined), s.sess.timeout()/8, "it was asked because it was time to")
	s.leave(me, true)

	asked = reconnect()
	require.Eventually(t, s.sess.connected, patience, time.Millisecond)
	time.Sleep(100 * time.Millisecond)
	require.False(t, asked(), "nobody stands in line")
}

func TestAServiceOutOfReachIsSaidToBe(t *testing.T) {
	s := play(t)
	defer s.cut()()
	ctx, cancel := context.WithTimeout(s.ctx, 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, _, err := s.sess.Join(ctx, entry("lock"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(start), time.Second)
	_, err = s.link.Line(ctx, "a")
	require.ErrorContains(t, err, s.proxies[0].Addr())
	require.False(t, errors.Is(err, driver.ErrDenied))
}

// Whatever is asked for while the service is out of reach, nothing queues in the library.
func TestNothingPilesUpWhileTheServiceIsOutOfReach(t *testing.T) {
	s := play(t, WithTTL(time.Minute)) // a busy machine takes seconds for all that is asked
	s.join(s.sess, "lock")
	heal := s.cut()
	require.Eventually(t, func() bool { return !s.sess.connected() }, patience, time.Millisecond)
	for range 1000 {
		ctx, cancel := context.WithTimeout(s.ctx, 100*time.Microsecond)
		_, _, err := s.sess.Join(ctx, entry("lock"))
		require.Error(t, err)
		cancel()
	}
	require.Eventually(t, func() bool { return len(s.sess.slots) == 0 }, patience, time.Millisecond)
	s.proxies[0].Reset()
	heal()
	require.Eventually(t, s.sess.connected, patience, time.Millisecond)
	time.Sleep(50 * time.Millisecond)
	require.Zero(t, s.proxies[0].Requests(zkwire.Create))
}

func TestDataOverTheLimitAreRefusedBeforeTheySend(t *testing.T) {
	s := play(t)
	e := entry("lock")
	e.Data = make([]byte, maxBytes)
	require.Eventually(t, func() bool { // the session may ask for something just then
		s.proxies[0].Reset()
		_, _, err := s.sess.Join(s.ctx, e)
		require.ErrorContains(t, err, "at most 1000000")
		return s.proxies[0].Requests() == 0
	}, patience, time.Millisecond, "requests are sent")

	me, _ := s.join(s.sess, "lead")
	err := me.Amend(s.ctx, "lead", e.Data)
	require.ErrorContains(t, err, "at most 1000000")
	require.True(t, s.sess.connected(), "the connection that all share still stands")
}

// Close must not use up a long context when nobody will ever confirm it.
func TestCloseDoesNotWaitForAGoodbyeThatNeverComes(t *testing.T) {
	const ttl = 2 * time.Second
	for name, lose := range map[string]func(s *scene){
		"nobody answers": func(s *scene) { s.freeze(drivertest.Both) },
		"out of reach": func(s *scene) {
			s.cut()
			require.Eventually(s, func() bool { return !s.sess.connected() }, patience, time.Millisecond)
		},
		"the service ends the session first": func(s *scene) {
			s.freeze(drivertest.Replies)
			s.harness.expire(s, s.sess)
		},
		"the connection breaks": func(s *scene) {
			s.freeze(drivertest.Both)
			time.AfterFunc(100*time.Millisecond, func() { s.cut() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := play(t, WithTTL(ttl))
			s.join(s.sess, "lock")
			lose(s)
			start := time.Now()
			_ = s.link.Close(s.ctx)
			took := time.Since(start)
			t.Logf("closed after %v", took)
			require.Less(t, took, ttl+10*time.Second, "of the %v that the context would allow", 3*patience)
		})
	}
}

// The service reports the node's end before it hangs up, and only the next connection says that the whole session has gone.
func TestTheEndOfASessionThatIsSlowToShowIsNoRemoval(t *testing.T) {
	cluster := servers.ZooKeeper(t, servers.Members(3), servers.Config("syncLimit=50")) // on a busy machine they are slow
	// It is up to chance which of the two is heard first, above all on a busy machine.
	for i := range 5 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			s := playOn(t, cluster)
			me, _ := s.join(s.sess, "lock")
			watched := s.watch(me)
			require.Eventually(t, func() bool {
				return s.proxies[0].Requests(zkwire.SetWatches)+s.proxies[1].Requests(zkwire.SetWatches)+s.proxies[2].Requests(zkwire.SetWatches) > 0
			},
				patience, time.Millisecond)
			defer s.delayed(150 * time.Millisecond)()
			mine := slices.IndexFunc(s.proxies, func(p *zkwire.Proxy) bool { return p.Addr() == s.sess.latest().Server })
			require.Eventually(t, func() bool { // a member that has only just come hangs up
				return closeSession(cluster.Addrs()[(mine+1)%3], s.sess.identity.Load()) == nil
			}, patience, 100*time.Millisecond)
			require.ErrorIs(t, s.answer(watched).err, driver.ErrSessionEnded)
		})
	}
}

// A holder that has heard that its node has gone must not believe until it can ask why: nobody may answer for a long time.
func TestAHolderWhoseServerHangsUpWaitsForNoAnswer(t *testing.T) {
	s := play(t, WithTTL(time.Minute))
	client := coord.NewClient(s.link.Driver)
	t.Cleanup(func() { _ = client.Close() })
	hold, err := mutex.New(client, "a").Lock(s.ctx)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.proxies[0].Requests(zkwire.SetWatches) > 0 }, patience, time.Millisecond)
	time.Sleep(50 * time.Millisecond)
	defer s.freeze(drivertest.Requests)()
	events := s.proxies[0].Events()
	require.NoError(t, s.admin.Delete(hold.Node().ID, -1))
	require.Eventually(t, func() bool { return s.proxies[0].Events() > events }, patience, 100*time.Microsecond)
	told := time.Now()
	defer s.cut()()
	select {
	case <-hold.Context().Done():
	case <-time.After(patience):
		t.Fatal("the hold goes on")
	}
	require.Less(t, time.Since(told), 600*time.Millisecond)
	require.ErrorIs(t, hold.Err(), coord.ErrLost)
}

// A session that idles is kept by syncs, which write nothing. So when it is needed, it is sure from the first write on.
func TestTheFirstJoinAfterIdlingIsSureAtOnce(t *testing.T) {
	const ttl = 4 * time.Second
	s := play(t, WithTTL(ttl))
	s.plantForeign(t, "a") // so that the line is not swept
	me, _ := s.join(s.sess, "lock")
	s.leave(me, true)
	s.proxies[0].Reset()
	time.Sleep(2 * ttl)
	idle := s.proxies[0].Requests(zkwire.Sync)
	require.Zero(t, s.traffic().Writes)
	require.LessOrEqual(t, idle, 8, "in two timeouts")
	require.Greater(t, idle, 2)
	require.False(t, time.Now().Before(s.sess.Deadline()), "what no majority has agreed to makes nothing sure")

	s.proxies[0].Reset()
	me, _ = s.join(s.sess, "lock")
	left := time.Until(s.sess.Deadline())
	require.LessOrEqual(t, s.traffic().Requests(), 3, "a node, a list, and perhaps one that was due just then")
	t.Logf("%d syncs in two timeouts, then %.2f of the timeout left", idle, left.Seconds()/ttl.Seconds())
	require.Greater(t, left, ttl/5)

	for until := time.Now().Add(2 * ttl); time.Now().Before(until); time.Sleep(time.Millisecond) {
		left = min(left, time.Until(s.sess.Deadline()))
	}
	syncs, writes := s.proxies[0].Requests(zkwire.Sync), s.proxies[0].Requests(zkwire.Multi)
	t.Logf("while it stands: %d syncs and %d writes in two timeouts, %.2f of the timeout left", syncs, writes, left.Seconds()/ttl.Seconds())
	require.LessOrEqual(t, writes, 7)
	require.LessOrEqual(t, syncs+writes, 16)
	require.Positive(t, left)
	s.leave(me, true)
}
