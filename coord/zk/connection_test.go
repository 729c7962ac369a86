package zk

import (
	"encoding/binary"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
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
	s, _, _ := testWire(t, 10*time.Second)
	s.introduced.Store(true)
	s.hearsay.connected(time.Now())
	s.Answered(time.Now(), seen, true)
	require.EqualValues(t, seen, snub(s))
	require.EqualValues(t, seen, snub(s), "the session cannot have ended yet")
	s.deadline = driverkit.NewDeadline() // which has passed
	require.False(t, s.hello("b").Probe, "of another server there is no doubt")

	w, server := wireOf(t, s)
	require.Zero(t, hello(w, server))
	_, err := server.Write(zkwire.Frame(0, 4000, int64(42), password, false))
	require.NoError(t, err)
	_, err = zkwire.ReadFrame(w)
	require.ErrorIs(t, err, wire.ErrBehind, "the session lives, and this connection is not for it")
	require.True(t, time.Now().After(s.Deadline()), "a server that may be behind renews nothing")

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
	require.WithinRange(t, s.Deadline(), before.Add(keptFor(4*time.Second)), time.Now().Add(keptFor(4*time.Second)))
}

// The service counts from when it got the request; the answer may have taken a long time to arrive.
func TestTheDeadlineCountsFromTheSending(t *testing.T) {
	const timeout = 10 * time.Second
	s, w, server := testWire(t, timeout)
	greet(t, w, server, timeout)
	first := s.Deadline()

	time.Sleep(20 * time.Millisecond)
	before := time.Now()
	_, err := w.Write(zkwire.Frame(-2, 11)) // a ping
	require.NoError(t, err)
	sent := time.Now()
	time.Sleep(30 * time.Millisecond)
	require.Equal(t, first, s.Deadline(), "sending alone renews nothing")
	_, err = server.Write(zkwire.Frame(-2, int64(9), 0))
	require.NoError(t, err)
	_, err = zkwire.ReadFrame(w)
	require.NoError(t, err)
	require.WithinRange(t, s.Deadline(), before.Add(keptFor(timeout)), sent.Add(keptFor(timeout)))

	// A late answer to an older request does not move the deadline back.
	moved := s.Deadline()
	s.Answered(before.Add(-time.Second), 0, true)
	require.Equal(t, moved, s.Deadline())
}

// A server tells the leader whom it has heard from when the leader asks, up to a quarter of the timeout later. If it is cut
// off right after an answer, the leader counts from what it knew before: see hearsay.
func TestOnlyWhatTheLeaderSurelyKnowsVouches(t *testing.T) {
	const timeout = 10 * time.Second
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		connected time.Time
		pings     []exchange
		until     time.Duration
	}{
		"all is well": {ago(time.Minute), []exchange{
			{ago(5 * time.Second), ago(5 * time.Second)}, {ago(3 * time.Second), ago(3 * time.Second)}, {ago(time.Second), ago(time.Second)},
		}, timeout * 54 / 100},
		"it has just been connected":     {ago(10 * time.Millisecond), nil, timeout * 54 / 100},
		"the greeting took half of it":   {ago(5 * time.Second), nil, 4 * time.Second},
		"nothing got through for a time": {ago(time.Minute), []exchange{{ago(6 * time.Second), ago(6 * time.Second)}, {ago(4 * time.Second), ago(0)}}, 4 * time.Second},
		"it got through, and so the leader knows": {ago(time.Minute), []exchange{
			{ago(9 * time.Second), ago(9 * time.Second)}, {ago(7 * time.Second), ago(3 * time.Second)}, {ago(3 * time.Second), ago(3 * time.Second)}, {ago(3 * time.Second), ago(2700 * time.Millisecond)},
		}, timeout * 54 / 100},
	} {
		d, err := newService([]string{"a"}, []Option{WithTTL(timeout)})
		require.NoError(t, err)
		s := newSession(d)
		_, err = s.Granted(wire.Identity{ID: 42}, timeout, c.connected)
		require.NoError(t, err)
		for _, p := range c.pings {
			s.hearsay.heard(p.sent, p.answered, timeout/64)
		}
		s.Answered(now, 1, true)
		require.WithinDuration(t, now.Add(c.until), s.Deadline(), 200*time.Millisecond, name)
		s.end(errClosed)
		<-s.quiet
	}
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
