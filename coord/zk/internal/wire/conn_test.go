package zk

import (
	"encoding/binary"
	"net"
	"os"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// testWire is a session's wire, and the server's end of it.
func testWire(t *testing.T, timeout time.Duration) (*wire, net.Conn) {
	d, err := newDriver([]string{"a"}, []Option{WithSessionTimeout(timeout)})
	require.NoError(t, err)
	s := newSession(d)
	t.Cleanup(func() { s.finish(errClosed); <-s.quiet })
	return wireOf(t, s)
}

func wireOf(t *testing.T, s *session) (*wire, net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	server, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { client.Close(); server.Close() })
	return newWire(client, "a", s), server
}

func frame(parts ...any) []byte {
	b := make([]byte, 4)
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = binary.BigEndian.AppendUint32(b, uint32(p))
		case int64:
			b = binary.BigEndian.AppendUint64(b, uint64(p))
		case string:
			b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
			b = append(b, p...)
		case rawByte:
			b = append(b, byte(p))
		case bool:
			b = append(b, 0)
		}
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// rawByte is one byte of a frame.
type rawByte byte

const password = "0123456789abcdef"

// greet lets the library's connect request and its answer pass.
func greet(t *testing.T, w *wire, server net.Conn, granted time.Duration) (asked, told time.Duration) {
	_, err := w.Write(frame(0, int64(5), 77, int64(0), password))
	require.NoError(t, err)
	body, err := readFrame(server)
	require.NoError(t, err)
	_, err = server.Write(frame(0, int(granted.Milliseconds()), int64(42), password, false))
	require.NoError(t, err)
	hello, err := readFrame(w)
	require.NoError(t, err)
	require.EqualValues(t, 42, binary.BigEndian.Uint64(hello[8:]))
	return time.Duration(binary.BigEndian.Uint32(body[12:])) * time.Millisecond,
		time.Duration(binary.BigEndian.Uint32(hello[4:])) * time.Millisecond
}

// A server hangs up on those who have seen more than it has, so one that has lost its data never tells that it does not
// know the session (CURATOR-724).
func TestAServerThatHangsUpIsAskedOnlyWhetherItKnowsTheSession(t *testing.T) {
	const seen = 77
	hello := func(w *wire, server net.Conn) (zxid int64) {
		_, err := w.Write(frame(0, int64(0), 77, int64(42), password))
		require.NoError(t, err)
		body, err := readFrame(server)
		require.NoError(t, err)
		return int64(binary.BigEndian.Uint64(body[4:]))
	}
	snub := func(s *session) (zxid int64) {
		w, server := wireOf(t, s)
		zxid = hello(w, server)
		server.Close()
		_, err := readFrame(w)
		require.Error(t, err)
		return zxid
	}
	first, _ := testWire(t, 10*time.Second)
	s := first.session
	s.introduced.Store(true)
	s.zxids.saw(seen)
	s.renewed(time.Now())
	require.EqualValues(t, seen, snub(s))
	require.EqualValues(t, seen, snub(s), "the session cannot have ended yet")
	s.base = s.base.Add(-time.Minute)

	w, server := wireOf(t, s)
	require.Zero(t, hello(w, server))
	_, err := server.Write(frame(0, 4000, int64(42), password, false))
	require.NoError(t, err)
	_, err = readFrame(w)
	require.ErrorIs(t, err, errBehind, "the session lives, and this connection is not for it")
	require.True(t, time.Now().After(s.Deadline()), "a server that may be behind renews nothing")

	require.EqualValues(t, seen, snub(s), "every other time")
	w, server = wireOf(t, s)
	require.Zero(t, hello(w, server))
	_, err = server.Write(frame(0, 0, int64(0), password, false))
	require.NoError(t, err)
	answer, err := readFrame(w)
	require.NoError(t, err)
	require.Zero(t, binary.BigEndian.Uint64(answer[8:]), "the library is told that the session has ended")
}

func TestTheTimeoutIsReadFromTheGreeting(t *testing.T) {
	w, server := testWire(t, 10*time.Second)
	before := time.Now()
	asked, told := greet(t, w, server, 4*time.Second)
	require.Equal(t, 10*time.Second, asked, "whatever the library has come to think")
	require.Equal(t, 2400*time.Millisecond, told, "so that it pings at a fifth of the real one")
	require.Equal(t, 4*time.Second, w.session.timeout())
	require.EqualValues(t, 42, w.session.sessionID())
	require.WithinRange(t, w.session.Deadline(), before.Add(keptFor(4*time.Second)), time.Now().Add(keptFor(4*time.Second)))
}

// The service counts from when it got the request; the answer may have been on its way for long.
func TestTheDeadlineCountsFromTheSending(t *testing.T) {
	const timeout = 10 * time.Second
	w, server := testWire(t, timeout)
	greet(t, w, server, timeout)
	first := w.session.Deadline()

	time.Sleep(20 * time.Millisecond)
	before := time.Now()
	_, err := w.Write(frame(-2, 11)) // a ping
	require.NoError(t, err)
	sent := time.Now()
	time.Sleep(30 * time.Millisecond)
	require.Equal(t, first, w.session.Deadline(), "sending alone renews nothing")
	_, err = server.Write(frame(-2, int64(9), 0))
	require.NoError(t, err)
	_, err = readFrame(w)
	require.NoError(t, err)
	require.WithinRange(t, w.session.Deadline(), before.Add(keptFor(timeout)), sent.Add(keptFor(timeout)))

	// An answer to an older request than one that was answered already moves nothing back.
	moved := w.session.Deadline()
	w.session.renewed(before.Add(-time.Second))
	require.Equal(t, moved, w.session.Deadline())
}

func TestAnswersFindTheirRequests(t *testing.T) {
	w, server := testWire(t, 10*time.Second)
	greet(t, w, server, 10*time.Second)
	for xid := 1; xid <= 3; xid++ {
		_, err := w.Write(frame(xid, 3, "/a", false))
		require.NoError(t, err)
	}
	answer := func(xid int) {
		_, err := server.Write(frame(xid, int64(9), 0))
		require.NoError(t, err)
		_, err = readFrame(w)
		require.NoError(t, err)
	}
	answer(2) // as one to an authentication may be
	require.Len(t, w.sent, 2)
	require.Greater(t, w.waiting(time.Now()), time.Duration(0))
	answer(1)
	_, err := server.Write(frame(xidNotification, int64(9), 0, int(gozk.EventNodeDeleted), 3, "/a")) // which is not for the library
	require.NoError(t, err)
	answer(99) // to nothing we know
	answer(3)
	require.Empty(t, w.sent)
	require.Zero(t, w.waiting(time.Now()))
}

// The library's authentication waits for ten times its own patience (28 s with a session of 4 s).
func TestAServerThatSaysNothingIsGivenUpSoon(t *testing.T) {
	w, _ := testWire(t, 600*time.Millisecond)
	require.NoError(t, w.SetReadDeadline(time.Now().Add(time.Hour)))
	start := time.Now()
	_, err := w.Read(make([]byte, 4))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Less(t, time.Since(start), 5*time.Second)
}

func TestAnotherProtocolIsRecognized(t *testing.T) {
	for _, says := range []string{"HTTP/1.1 400 Bad Request\r\n\r\n", "\x15\x03\x01\x00\x02\x02\x0a", "\x00\x00\x00\x04spam"} {
		w, server := testWire(t, 10*time.Second)
		_, err := server.Write([]byte(says))
		require.NoError(t, err)
		_, err = w.Read(make([]byte, 4))
		require.ErrorIs(t, err, errForeign)
		require.True(t, hopeless(err))
		select {
		case <-w.session.troubles.refused:
		default:
			t.Fatal("there is no other server to try")
		}
	}
}

// A second connection of a session, right after the first.
func nextWire(t *testing.T, w *wire) (*wire, net.Conn) {
	next, server := testWire(t, 10*time.Second)
	next.session = w.session
	return next, server
}

func TestOneSessionNeverGoesBackInTime(t *testing.T) {
	w, server := testWire(t, 10*time.Second)
	greet(t, w, server, 10*time.Second)
	pass := func(zxid int64) {
		_, err := w.Write(frame(1, 3, "/a", false))
		require.NoError(t, err)
		_, err = server.Write(frame(1, zxid, 0, "the rest"))
		require.NoError(t, err)
		reply, err := readFrame(w)
		require.NoError(t, err)
		require.Zero(t, binary.BigEndian.Uint64(reply[4:]), "the library is not told")
		require.Equal(t, frame(0, int64(0), 0, "the rest")[8:], reply[4:], "but all the rest")
	}
	pass(9)
	pass(7) // cannot be, but if it were
	next, server2 := nextWire(t, w)
	_, err := next.Write(frame(0, int64(0), 77, int64(42), password))
	require.NoError(t, err)
	asked, err := readFrame(server2)
	require.NoError(t, err)
	require.EqualValues(t, 9, binary.BigEndian.Uint64(asked[4:]))
}

func TestNothingIsSaidByAnAbandonedSession(t *testing.T) {
	w, server := testWire(t, 10*time.Second)
	greet(t, w, server, 10*time.Second)
	w.silence()
	_, err := w.Write(frame(1, int(opClose)))
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = server.Read(make([]byte, 1))
	require.Error(t, err)
}
