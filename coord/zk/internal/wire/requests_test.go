package wire

import (
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
)

// reads reads the wire in the background, as the library does.
func reads(t *testing.T, w *Conn) <-chan []byte {
	frames := make(chan []byte, 10)
	go func() {
		defer close(frames)
		for {
			f, err := zkwire.ReadFrame(w)
			if err != nil {
				return
			}
			frames <- f
		}
	}()
	t.Cleanup(func() {
		w.Conn.Close()
		for range frames {
		}
	})
	return frames
}

// greeted is a connection on which requests may be made.
func greeted(t *testing.T) (w *Conn, server net.Conn, forLibrary <-chan []byte) {
	w, server = testConn(t)
	greet(t, w, server)
	return w, server, reads(t, w)
}

// sends has one request made, and returns the xid that the server sees.
func sends(t *testing.T, w *Conn, server net.Conn, r Request) int {
	t.Helper()
	w.Send(r)
	f, err := zkwire.ReadFrame(server)
	require.NoError(t, err)
	return xidOf(f)
}

func xidOf(frame []byte) int { return int(int32(binary.BigEndian.Uint32(frame))) }

func soon[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func stat(pzxid int64) []any {
	return []any{int64(11), int64(0), int64(0), int64(0), 0, 0, 0, int64(0), 0, 0, pzxid}
}

func TestRequestsOfOurOwnAreAnsweredPastTheLibrary(t *testing.T) {
	w, server, forLibrary := greeted(t)

	create, created := Create(withData([]byte("note")), gozk.WorldACL(gozk.PermAll))
	look, looked := List("/a", false, 0)
	w.Send(create, look)
	first, err := zkwire.ReadFrame(server)
	require.NoError(t, err)
	require.EqualValues(t, opCreate, binary.BigEndian.Uint32(first[4:]))
	second, err := zkwire.ReadFrame(server)
	require.NoError(t, err)
	require.EqualValues(t, opGetChildren2, binary.BigEndian.Uint32(second[4:]))
	require.Less(t, xidOf(first), lowestXid)
	require.NotEqual(t, xidOf(first), xidOf(second))
	asks(t, w, server, 7, opDelete)

	for _, f := range [][]byte{
		zkwire.Frame(xidOf(first), int64(20), 0, "/a/x-0000000003"),
		zkwire.Frame(append([]any{xidOf(second), int64(20), 0, 1, "x-0000000003"}, stat(19)...)...),
		zkwire.Frame(7, int64(20), 0, "for the library"),
	} {
		_, err := server.Write(f)
		require.NoError(t, err)
	}
	require.Equal(t, Reply[string]{Value: "/a/x-0000000003"}, soon(t, created))
	l := soon(t, looked)
	require.NoError(t, l.Err)
	require.Equal(t, &Listing{Names: []string{"x-0000000003"}, Born: 11, Last: 19, AsOf: 19, Bytes: 4 + 4 + len("x-0000000003") + statBytes}, l.Value)
	require.Equal(t, 7, xidOf(soon(t, forLibrary)))
	require.Empty(t, w.sent)
}

var numbered = withData(nil)

func withData(data []byte) Node {
	return Node{Path: "/a/x-", Data: data, Flags: gozk.FlagEphemeralSequential}
}

// What a real server says is in the driver's tests: it makes lines like this.
func TestATransactionMakesAllOrSaysWhatIsInTheWay(t *testing.T) {
	result := func(op int, says ...any) []byte {
		return slices.Concat(zkwire.Frame(op)[4:], []byte{0}, zkwire.Frame(append([]any{0}, says...)...)[4:])
	}
	failure := func(code int) []byte { return result(-1, code) }
	end := slices.Concat(zkwire.Frame(-1)[4:], []byte{1}, zkwire.Frame(-1)[4:])
	made := result(opCreate2, append([]any{"/a"}, stat(19)...)...)
	for name, c := range map[string]struct {
		results []byte
		reply   Reply[string]
	}{
		"both":         {append(made, result(opCreate, "/a/x-0000000000")...), Reply[string]{Value: "/a/x-0000000000"}},
		"it was there": {append(failure(-110), failure(-2)...), Reply[string]{Err: gozk.ErrNodeExists}},
		"not the last": {append(failure(0), failure(-101)...), Reply[string]{Err: gozk.ErrNoNode}},
		"other names":  {append(made, result(opCreate, "/b/x-0000000000")...), Reply[string]{Value: "/b/x-0000000000", Err: ErrMalformed}},
		"no result":    {nil, Reply[string]{Err: ErrMalformed}},
	} {
		t.Run(name, func(t *testing.T) {
			w, server, _ := greeted(t)
			create, created := CreateAll([]Node{{Path: "/a", Flags: gozk.FlagContainer}, numbered}, gozk.WorldACL(gozk.PermAll))
			_, err := server.Write(reply(sends(t, w, server, create), 0, append(c.results, end...)))
			require.NoError(t, err)
			require.Equal(t, c.reply, soon(t, created))
		})
	}
}

func TestErrorsHaveTheLibrarysNames(t *testing.T) {
	for code, want := range map[int]error{-101: gozk.ErrNoNode, -102: gozk.ErrNoAuth, -112: gozk.ErrSessionExpired, 0: nil} {
		require.Equal(t, want, errorOf(int32(code)))
	}
	require.EqualError(t, errorOf(-6), "unknown error: -6")
}

func TestTheEndOfTheConnectionAnswersAll(t *testing.T) {
	for name, end := range map[string]func(*Conn, net.Conn){
		"the server ends it": func(_ *Conn, server net.Conn) { server.Close() },
		"the library does":   func(w *Conn, _ net.Conn) { w.Close() },
		"in half a frame": func(_ *Conn, server net.Conn) {
			server.Write(zkwire.Frame(lowestXid-1, int64(9), 0, "/a/x-0000000003")[:25])
			server.Close()
		},
	} {
		w, server, _ := greeted(t)
		create, created := Create(numbered, nil)
		sends(t, w, server, create)
		end(w, server)
		require.Equal(t, gozk.ErrConnectionClosed, soon(t, created).Err, name)
		late, answered := Create(numbered, nil)
		w.Send(late)
		require.Equal(t, gozk.ErrConnectionClosed, soon(t, answered).Err, name)
	}
}

func TestAnAnswerThatIsTooShortIsNone(t *testing.T) {
	w, server, _ := greeted(t)
	create, created := Create(numbered, nil)
	_, err := server.Write(zkwire.Frame(sends(t, w, server, create), int64(9), 0, 100))
	require.NoError(t, err)
	require.ErrorIs(t, soon(t, created).Err, ErrMalformed)
}

// A caller must not wait for a connection that accepts nothing.
func TestSendingDoesNotWait(t *testing.T) {
	w, server, _ := greeted(t)
	note := make([]byte, 1<<20)
	start := time.Now()
	var last <-chan Reply[string]
	for range 30 {
		create, created := Create(withData(note), nil)
		w.Send(create)
		last = created
	}
	require.Less(t, time.Since(start), patience/2)
	server.Close()
	require.Error(t, soon(t, last).Err)
}
