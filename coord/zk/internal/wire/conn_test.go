package wire

import (
	"net"
	"sync"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
)

const patience = 20 * time.Second

// fake is a session that only records what the servers said.
type fake struct {
	troubles *Troubles
	running  sync.WaitGroup
}

func (*fake) Granted(_ *Conn, _ Identity, timeout time.Duration, _ time.Time) (time.Duration, error) {
	return timeout, nil
}

func (*fake) Answered(*Conn, time.Time, int64, Authority) {}
func (*fake) Notified(gozk.EventType, string, int64)      {}
func (*fake) Proven(*Conn)                                {}
func (f *fake) Failed(server string, err error, _ bool)   { f.troubles.Note(server, err) }
func (f *fake) Go(do func()) bool                         { f.running.Go(do); return true }

// testConn is a session's only connection, and the server's end of it.
func testConn(t testing.TB) (*Conn, net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	server, err := l.Accept()
	require.NoError(t, err)
	f := &fake{troubles: NewTroubles(func() int { return 1 })}
	t.Cleanup(func() { client.Close(); server.Close(); f.running.Wait() })
	return New(client, "a", Hello{Timeout: 10 * time.Second, Patience: patience}, f), server
}

// greet lets the library's connect request and its answer pass.
func greet(t *testing.T, w *Conn, server net.Conn) { greetFor(t, w, server, 10*time.Second) }

func greetFor(t *testing.T, w *Conn, server net.Conn, timeout time.Duration) {
	const password = "0123456789abcdef"
	_, err := w.Write(zkwire.Frame(0, int64(5), 77, int64(0), password))
	require.NoError(t, err)
	_, err = zkwire.ReadFrame(server)
	require.NoError(t, err)
	_, err = server.Write(zkwire.Frame(0, int(timeout.Milliseconds()), int64(42), password, false))
	require.NoError(t, err)
	_, err = zkwire.ReadFrame(w)
	require.NoError(t, err)
}

// asks has the library make a request.
func asks(t *testing.T, w *Conn, server net.Conn, xid, op int) {
	t.Helper()
	_, err := w.Write(zkwire.Frame(xid, op, "/a", false))
	require.NoError(t, err)
	_, err = zkwire.ReadFrame(server)
	require.NoError(t, err)
}

func TestAnswersFindTheirRequests(t *testing.T) {
	w, server := testConn(t)
	greet(t, w, server)
	asks(t, w, server, 1, opDelete)
	asks(t, w, server, 2, opAuth)
	asks(t, w, server, xidPing, opPing)
	asks(t, w, server, 3, opDelete)
	answer := func(xid int) error {
		_, err := server.Write(zkwire.Frame(xid, int64(9), 0))
		require.NoError(t, err)
		_, err = zkwire.ReadFrame(w)
		return err
	}
	require.NoError(t, answer(2), "one to an authentication may be early")
	require.NoError(t, answer(xidPing))
	require.Len(t, w.sent, 2)
	require.Greater(t, w.Waiting(time.Now()), time.Duration(0))
	require.NoError(t, answer(1))
	_, err := server.Write(zkwire.Frame(xidNotification, int64(9), 0, int(gozk.EventNodeDeleted), 3, "/a")) // which is not for the library
	require.NoError(t, err)
	require.NoError(t, answer(3))
	require.Empty(t, w.sent)
	require.Zero(t, w.Waiting(time.Now()))
}

// slow is a session that takes its time with what it is given to run.
type slow struct {
	*fake
	later []func()
}

func (s *slow) Go(f func()) bool { s.later = append(s.later, f); return true }

// A request of ours may be written after one of the library's that came later.
func TestOurRequestsAndTheLibrarysMayCross(t *testing.T) {
	w, server := testConn(t)
	greet(t, w, server)
	s := &slow{fake: w.session.(*fake)}
	w.session = s
	sync, synced := Sync("/a")
	w.Send(sync)
	asks(t, w, server, 1, opDelete)
	go s.later[0]()
	asked, err := zkwire.ReadFrame(server)
	require.NoError(t, err)
	for _, xid := range []int{1, xidOf(asked)} {
		_, err := server.Write(zkwire.Frame(xid, int64(9), 0))
		require.NoError(t, err)
	}
	forLibrary := reads(t, w)
	answer := soon(t, forLibrary)
	require.NotEmpty(t, answer)
	require.Equal(t, 1, xidOf(answer))
	require.NoError(t, soon(t, synced).Err)
}

func TestAnotherProtocolIsRecognized(t *testing.T) {
	for _, says := range []string{"HTTP/1.1 400 Bad Request\r\n\r\n", "\x15\x03\x01\x00\x02\x02\x0a", "\x00\x00\x00\x04spam"} {
		w, server := testConn(t)
		_, err := server.Write([]byte(says))
		require.NoError(t, err)
		_, err = w.Read(make([]byte, 4))
		require.ErrorIs(t, err, ErrForeign)
		require.True(t, hopeless(err))
		select {
		case <-w.session.(*fake).troubles.Hopeless():
		default:
			t.Fatal("there is no other server to try")
		}
	}
}

func TestNothingIsSaidByAnAbandonedSession(t *testing.T) {
	w, server := testConn(t)
	greet(t, w, server)
	w.Silence()
	_, err := w.Write(zkwire.Frame(1, int(opClose)))
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = server.Read(make([]byte, 1))
	require.Error(t, err)
}

// The library's read deadline starts over only with frames that it gets to see.
func TestAServerThatDeliversIsNotSilent(t *testing.T) {
	const timeout = 4 * time.Second
	w, server := testConn(t)
	greetFor(t, w, server, timeout)
	list, listed := List("/a", false, 0)
	w.Send(list)
	asked, err := zkwire.ReadFrame(server)
	require.NoError(t, err)
	asks(t, w, server, 7, opSync)
	name := string(make([]byte, 100_000))
	answer := zkwire.Frame(append([]any{xidOf(asked), int64(20), 0, 1, name}, stat(19)...)...)
	go func() {
		for len(answer) > 0 {
			n := min(len(answer), 2000)
			if _, err := server.Write(answer[:n]); err != nil {
				return
			}
			answer = answer[n:]
			time.Sleep(50 * time.Millisecond)
		}
		_, _ = server.Write(zkwire.Frame(7, int64(20), 0, "for the library"))
	}()
	start := time.Now()
	require.NoError(t, w.SetReadDeadline(start.Add(timeout*2/5)))
	read := make(chan error, 1)
	go func() {
		_, err := zkwire.ReadFrame(w)
		read <- err
	}()
	var waited time.Duration
	for over := false; !over; {
		select {
		case err := <-read:
			require.NoError(t, err)
			over = true
		case <-time.After(10 * time.Millisecond):
			waited = max(waited, w.Waiting(time.Now()))
		}
	}
	require.NoError(t, soon(t, listed).Err)
	require.Greater(t, time.Since(start), timeout/2)
	require.Less(t, waited, timeout*3/10, "an answer was on its way all the time")
}

// A server that has lost its leader goes on answering pings.
func TestAnswersToPingsAreNotWaitedFor(t *testing.T) {
	w, server := testConn(t)
	greet(t, w, server)
	sync, _ := Sync("/a")
	w.Send(sync)
	_, err := zkwire.ReadFrame(server)
	require.NoError(t, err)
	start := time.Now()
	for range 5 {
		_, err := w.Write(zkwire.Frame(xidPing, 11))
		require.NoError(t, err)
		_, err = server.Write(zkwire.Frame(xidPing, int64(9), 0))
		require.NoError(t, err)
		_, err = zkwire.ReadFrame(w)
		require.NoError(t, err)
		time.Sleep(10 * time.Millisecond)
	}
	now := time.Now()
	require.GreaterOrEqual(t, w.Waiting(now), now.Sub(start))
}
