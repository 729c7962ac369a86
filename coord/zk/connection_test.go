package zk

import (
	"encoding/binary"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/zk/internal/wire"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
)

// testWire is a session's connection, and the server's end of it.
func testWire(t *testing.T, timeout time.Duration) (*session, *wire.Conn, net.Conn) {
	d, err := newService([]string{"a"}, []Option{WithTTL(timeout)})
	require.NoError(t, err)
	s := newSession(d)
	t.Cleanup(func() { s.end(errClosed); <-s.quiet })
	w, server := wireOf(t, s)
	return s, w, server
}

// wireOf is another connection of a session.
func wireOf(t *testing.T, s *session) (*wire.Conn, net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	server, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { client.Close(); server.Close() })
	return wire.New(client, "a", s.hello("a"), s), server
}

const password = "0123456789abcdef"

// greet lets the library's connect request and its answer pass.
func greet(t *testing.T, w *wire.Conn, server net.Conn, granted time.Duration) (asked, told time.Duration) {
	_, err := w.Write(zkwire.Frame(0, int64(5), 77, int64(0), password))
	require.NoError(t, err)
	body, err := zkwire.ReadFrame(server)
	require.NoError(t, err)
	_, err = server.Write(zkwire.Frame(0, int(granted.Milliseconds()), int64(42), password, false))
	require.NoError(t, err)
	hello, err := zkwire.ReadFrame(w)
	require.NoError(t, err)
	require.EqualValues(t, 42, binary.BigEndian.Uint64(hello[8:]))
	return time.Duration(binary.BigEndian.Uint32(body[12:])) * time.Millisecond,
		time.Duration(binary.BigEndian.Uint32(hello[4:])) * time.Millisecond
}

// A server hangs up on clients that have seen more than it has. So one that has lost its data never says that it does not
// know the session (CURATOR-724).
func TestAServerThatHangsUpIsAskedOnlyWhetherItKnowsTheSession(t *testing.T) {
	const seen = 77
	hello := func(w *wire.Conn, server net.Conn) (zxid int64) {
		_, err := w.Write(zkwire.Frame(0, int64(0), 77, int64(42), password))
		require.NoError(t, err)
		body, err := zkwire.ReadFrame(server)
		require.NoError(t, err)
		return int64(binary.BigEndian.Uint64(body[4:]))
	}
	snub := func(s *session) (zxid int64) {
		w, server := wireOf(t, s)
		zxid = hello(w, server)
		server.Close()
		_, err := zkwire.ReadFrame(w)
		require.Error(t, err)
		return zxid
	}
	s, w, _ := testWire(t, 10*time.Second)
	s.introduced.Store(true)
	s.Answered(w, time.Now(), seen, wire.Majority)
	require.EqualValues(t, seen, snub(s))
	require.EqualValues(t, seen, snub(s), "the session cannot have ended yet")
	s.renewal.began = s.renewal.began.Add(-s.timeout()) // when it was last heard
	before := s.Deadline()
	require.False(t, s.hello("b").Probe, "of another server there is no doubt")

	w, server := wireOf(t, s)
	require.Zero(t, hello(w, server))
	_, err := server.Write(zkwire.Frame(0, 4000, int64(42), password, false))
	require.NoError(t, err)
	_, err = zkwire.ReadFrame(w)
	require.ErrorIs(t, err, wire.ErrBehind, "the session lives, and this connection is not for it")
	require.Equal(t, before, s.Deadline(), "a server that may be behind renews nothing")

	require.EqualValues(t, seen, snub(s), "every other time")
	w, server = wireOf(t, s)
	require.Zero(t, hello(w, server))
	_, err = server.Write(zkwire.Frame(0, 0, int64(0), password, false))
	require.NoError(t, err)
	answer, err := zkwire.ReadFrame(w)
	require.NoError(t, err)
	require.Zero(t, binary.BigEndian.Uint64(answer[8:]), "the library is told that the session has ended")
}

func TestTheTimeoutIsReadFromTheGreeting(t *testing.T) {
	s, w, server := testWire(t, 10*time.Second)
	before := time.Now()
	asked, told := greet(t, w, server, 4*time.Second)
	require.Equal(t, 10*time.Second, asked, "whatever the library has come to think")
	require.Equal(t, 2400*time.Millisecond, told, "so that it pings at a fifth of the real one")
	require.Equal(t, 4*time.Second, s.timeout())
	require.EqualValues(t, 42, s.identity.Load().ID)
	require.WithinRange(t, s.Deadline(), before.Add(sureAtOnce(4*time.Second)), time.Now().Add(sureAtOnce(4*time.Second)))
}

// sureFor is how long the service keeps a session after it has heard of it, less what clocks may differ by.
func sureFor(timeout time.Duration) time.Duration { return timeout - timeout/50 }

// sureAtOnce is for how much of that a session is said to be sure just after a request.
func sureAtOnce(timeout time.Duration) time.Duration { return timeout * sureAtMost / 100 }

// asks has the library make a request, and returns when it was sent, at the earliest and at the latest. answer lets the
// answer pass.
func asks(t *testing.T, w *wire.Conn, server net.Conn, xid, op int) (before, after time.Time, answer func(code int)) {
	t.Helper()
	before = time.Now()
	_, err := w.Write(zkwire.Frame(xid, op))
	require.NoError(t, err)
	after = time.Now()
	_, err = zkwire.ReadFrame(server)
	require.NoError(t, err)
	return before, after, func(code int) {
		_, err := server.Write(zkwire.Frame(xid, int64(9), code, "")) // with what answers a sync
		require.NoError(t, err)
		_, err = zkwire.ReadFrame(w)
		require.NoError(t, err)
	}
}

// The service counts from when it got the request; the answer may have taken a long time to arrive.
func TestTheDeadlineCountsFromTheSending(t *testing.T) {
	const timeout = time.Second
	s, w, server := testWire(t, timeout)
	greet(t, w, server, timeout)
	time.Sleep(20 * time.Millisecond)
	before, sent, answer := asks(t, w, server, 1, 2)
	time.Sleep(30 * time.Millisecond)
	answer(0)
	time.Sleep(timeout / 2)
	_, _, answer = asks(t, w, server, 2, 2)
	answer(0)
	first := s.Deadline()
	_, _, answer = asks(t, w, server, 3, 2)
	time.Sleep(30 * time.Millisecond)
	require.Equal(t, first, s.Deadline(), "sending alone renews nothing")
	answer(0)
	require.WithinRange(t, s.Deadline(), before.Add(sureFor(timeout)), sent.Add(sureFor(timeout)))

	// A late answer to an older request does not move the deadline back.
	moved := s.Deadline()
	s.Answered(w, before.Add(-time.Second), 0, wire.Majority)
	require.Equal(t, moved, s.Deadline())
}

// A server answers many requests by itself, and one that is cut off from the others goes on doing so.
func TestOnlyWhatTheLeaderHasAnsweredRenews(t *testing.T) {
	const (
		timeout                    = time.Second
		sync, remove, ping, noAuth = 9, 2, 11, -102
		ahead                      = 100 * time.Millisecond // of the greeting
	)
	for name, c := range map[string]struct {
		op, code int
		renews   bool
	}{
		"writes":                           {remove, 0, true},
		"writes that find no node":         {remove, -101, true},
		"writes that a server refuses":     {remove, noAuth, false},
		"syncs, and then no write":         {sync, 0, false},
		"pings":                            {ping, 0, false},
		"syncs that a server knows better": {sync, -112, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, w, server := testWire(t, timeout)
			greet(t, w, server, timeout)
			first := time.Now().Add(sureFor(timeout))
			time.Sleep(ahead)
			for i, pause := range []time.Duration{0, timeout / 2, 0} {
				time.Sleep(pause)
				xid := i + 1
				if c.op == ping {
					xid = -2
				}
				_, _, answer := asks(t, w, server, xid, c.op)
				answer(c.code)
			}
			require.Equal(t, c.renews, s.Deadline().After(first.Add(ahead/2)))
			if c.op == sync && c.code == 0 { // they count as soon as a write has been agreed to
				_, _, answer := asks(t, w, server, 4, remove)
				answer(0)
				require.True(t, s.Deadline().After(first.Add(ahead/2)))
			}
		})
	}
}

// What happened on one connection says nothing about what the server of another has told the leader.
func TestLinksOfAnotherConnectionDoNotCount(t *testing.T) {
	const timeout = time.Second
	s, w, server := testWire(t, timeout)
	greet(t, w, server, timeout)
	_, _, answer := asks(t, w, server, 1, 2)
	answer(0)
	time.Sleep(timeout / 2)
	again, server2 := wireOf(t, s)
	before := time.Now()
	greet(t, again, server2, timeout)
	for xid := range 3 {
		_, _, answer = asks(t, again, server2, xid+1, 2)
		answer(0)
	}
	after := time.Now()
	require.WithinRange(t, s.Deadline(), before.Add(sureAtOnce(timeout)), after.Add(sureAtOnce(timeout)), "the greeting counts")
	moved := s.Deadline()
	s.Answered(w, time.Now(), 10, wire.Majority)
	require.Equal(t, moved, s.Deadline(), "a late answer on the other connection does not")
}

// When it authenticates, the library waits ten times as long as usual (28 s with a session of 4 s).
func TestAServerThatSaysNothingIsGivenUpSoon(t *testing.T) {
	_, w, _ := testWire(t, 600*time.Millisecond)
	require.NoError(t, w.SetReadDeadline(time.Now().Add(time.Hour)))
	start := time.Now()
	_, err := w.Read(make([]byte, 4))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Less(t, time.Since(start), 5*time.Second)
}

func TestOneSessionNeverGoesBackInTime(t *testing.T) {
	s, w, server := testWire(t, 10*time.Second)
	greet(t, w, server, 10*time.Second)
	pass := func(zxid int64) {
		_, err := w.Write(zkwire.Frame(1, 9, "/a"))
		require.NoError(t, err)
		_, err = server.Write(zkwire.Frame(1, zxid, 0, "the rest"))
		require.NoError(t, err)
		reply, err := zkwire.ReadFrame(w)
		require.NoError(t, err)
		require.Zero(t, binary.BigEndian.Uint64(reply[4:]), "the library is not told")
		require.Equal(t, zkwire.Frame(0, int64(0), 0, "the rest")[8:], reply[4:], "but all the rest")
	}
	pass(9)
	pass(7) // cannot happen, but if it did
	next, server2 := wireOf(t, s)
	_, err := next.Write(zkwire.Frame(0, int64(0), 77, int64(42), password))
	require.NoError(t, err)
	asked, err := zkwire.ReadFrame(server2)
	require.NoError(t, err)
	require.EqualValues(t, 9, binary.BigEndian.Uint64(asked[4:]))
}
