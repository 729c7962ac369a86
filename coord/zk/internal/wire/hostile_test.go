package wire

import (
	"encoding/binary"
	"math"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
)

// From such a greeting the library would make a ticker with an interval of zero or less, and crash the process.
func TestAGreetingThatMakesNoSenseIsRefused(t *testing.T) {
	const password, asked = "0123456789abcdef", int64(42)
	for name, greeting := range map[string][]byte{
		"a millisecond":               zkwire.Frame(0, 1, asked, password, false),
		"no time":                     zkwire.Frame(0, 0, asked, password, false),
		"less than that":              zkwire.Frame(0, -1, asked, password, false),
		"another session":             zkwire.Frame(0, 10_000, asked+1, password, false),
		"a password of two gigabytes": zkwire.Frame(0, 10_000, asked, math.MaxInt32, int64(0), int64(0), false),
		"a short password":            zkwire.Frame(0, 10_000, asked, "short", int64(0), 0),
		"another version":             zkwire.Frame(7, 10_000, asked, password, false),
		"no length":                   {0xff, 0xff, 0xff, 0xff},
		"half a gigabyte":             {0x20, 0, 0, 0},
	} {
		w, server := testConn(t)
		_, err := w.Write(zkwire.Frame(0, int64(5), 77, asked, password))
		require.NoError(t, err)
		_, err = server.Write(greeting)
		require.NoError(t, err)
		_, err = w.Read(make([]byte, 4))
		require.ErrorIs(t, err, ErrForeign, name)
		require.ErrorIs(t, w.session.(*fake).troubles.Last(), ErrForeign, name)
	}
}

// libraryOn is the client library on connections to the test, which is the server. Each of them has been greeted.
func libraryOn(t testing.TB) (*gozk.Conn, <-chan net.Conn, *fake) {
	w, _ := testConn(t)
	f := w.session.(*fake)
	servers := make(chan net.Conn, 100)
	conn, _, err := gozk.Connect([]string{"a:1"}, 10*time.Second,
		gozk.WithLogger(silence{}),
		gozk.WithHostProvider(onlyOne("a:1")),
		gozk.WithDialer(func(string, string, time.Duration) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				if f, err := zkwire.ReadFrame(server); err != nil || len(f) < 16 {
					return
				}
				if _, err := server.Write(zkwire.Frame(0, 10_000, int64(42), "0123456789abcdef", false)); err == nil {
					servers <- server
				}
			}()
			return New(client, "a", Hello{Timeout: 10 * time.Second, Patience: patience}, f), nil
		}))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn, servers, f
}

// onlyOne is a list of one server, which the library tries without a pause.
type onlyOne string

func (onlyOne) Init([]string) error    { return nil }
func (onlyOne) Len() int               { return 1 }
func (o onlyOne) Next() (string, bool) { return string(o), false }
func (onlyOne) Connected()             {}

type silence struct{}

func (silence) Printf(string, ...any) {}

// libraryAsks are the requests that the library makes.
var libraryAsks = []func(*gozk.Conn) error{
	func(c *gozk.Conn) error { return c.Delete("/a", -1) },
	func(c *gozk.Conn) error { _, err := c.Create("/a", nil, 0, gozk.WorldACL(gozk.PermAll)); return err },
	func(c *gozk.Conn) error {
		_, err := c.CreateContainer("/a", nil, gozk.FlagContainer, gozk.WorldACL(gozk.PermAll))
		return err
	},
	func(c *gozk.Conn) error { _, _, err := c.Exists("/a"); return err },
	func(c *gozk.Conn) error { _, err := c.Set("/a", nil, -1); return err },
	func(c *gozk.Conn) error { _, _, err := c.GetACL("/a"); return err },
	func(c *gozk.Conn) error { _, err := c.SetACL("/a", nil, -1); return err },
	func(c *gozk.Conn) error { _, err := c.Sync("/a"); return err },
	func(c *gozk.Conn) error { _, _, err := c.Get("/a"); return err },
	func(c *gozk.Conn) error { _, _, err := c.Children("/a"); return err },
	func(c *gozk.Conn) error { _, err := c.Multi(&gozk.DeleteRequest{Path: "/a"}); return err },
}

const libraryMulti = 10

// A reply to a transaction that is cut short makes the library crash the process, and it allocates two gigabytes if it is
// told that they follow.
func TestTheLibraryGetsNoReplyThatItCannotRead(t *testing.T) {
	two := []byte{0x7f, 0xff, 0xff, 0xff}
	for name, of := range map[string]struct {
		op   int
		body []byte
	}{
		"four bytes to a transaction":        {libraryMulti, []byte{0, 0, 0, 1}},
		"a transaction without an end":       {libraryMulti, []byte{0, 0, 0, 2, 0, 0, 0, 0, 0}},
		"a transaction with unknown results": {libraryMulti, []byte{0, 0, 0, 77, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0}},
		"a path of two gigabytes":            {1, two},
		"rights without end":                 {5, two},
		"rights that are less than none":     {5, append([]byte{0xff, 0xff, 0xff, 0xff}, make([]byte, statBytes)...)},
		"names that are less than none":      {9, append([]byte{0xff, 0xff, 0xff, 0xff}, make([]byte, statBytes)...)},
		"no state of a node":                 {3, nil},
	} {
		t.Run(name, func(t *testing.T) {
			conn, servers, f := libraryOn(t)
			server := soon(t, servers)
			said := make(chan error, 1)
			go func() { said <- libraryAsks[of.op](conn) }()
			asked, err := zkwire.ReadFrame(server)
			require.NoError(t, err)
			before := allocated()
			_, err = server.Write(reply(xidOf(asked), 0, of.body))
			require.NoError(t, err)
			require.ErrorIs(t, soon(t, said), gozk.ErrConnectionClosed)
			soon(t, servers) // the next one is tried
			require.ErrorIs(t, f.troubles.Last(), ErrMalformed)
			require.Less(t, allocated()-before, uint64(8<<20), "a connection of the library's takes two")
		})
	}
}

func reply(xid int, code int32, body []byte) []byte {
	b := append(zkwire.Frame(xid, int64(20), int(code)), body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// An announced length costs no memory until the bytes arrive.
func TestLengthsAreNotBelievedBeforeTheBytesAreThere(t *testing.T) {
	create := func() (Request, func() error) {
		r, c := Create(numbered, nil)
		return r, func() error { return soon(t, c).Err }
	}
	list := func() (Request, func() error) {
		r, c := List("/a", false, 0)
		return r, func() error { return soon(t, c).Err }
	}
	get := func() (Request, func() error) {
		r, c := Get("/a")
		return r, func() error { return soon(t, c).Err }
	}
	for name, of := range map[string]struct {
		request func() (Request, func() error)
		length  int // as announced
		says    []any
	}{
		"a quarter of a gigabyte of a path":   {create, 256 << 20, nil},
		"a quarter of a gigabyte of a list":   {list, 256 << 20, nil},
		"a list that is as long as may be":    {list, maxList, nil},
		"a list of two billion names":         {list, 0, []any{math.MaxInt32, int64(0), int64(0)}},
		"a name of two gigabytes":             {list, 0, []any{1, math.MaxInt32, int64(0), int64(0)}},
		"a node with two gigabytes":           {get, 0, []any{math.MaxInt32, int64(0), int64(0)}},
		"a quarter of a gigabyte in one node": {get, 256 << 20, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w, server, _ := greeted(t)
			r, answer := of.request()
			xid := sends(t, w, server, r)
			frame := zkwire.Frame(append([]any{xid, int64(20), 0}, of.says...)...)
			if of.length > 0 {
				binary.BigEndian.PutUint32(frame, uint32(of.length))
			}
			before := allocated()
			_, err := server.Write(append(frame, make([]byte, 1000)...))
			require.NoError(t, err)
			server.Close()
			require.Error(t, answer())
			require.Less(t, allocated()-before, uint64(1<<20))
		})
	}
}

// Others may put more into a line, or a node, than we accept. The session does not suffer from it.
func TestAnAnswerThatIsTooLongEndsNoConnection(t *testing.T) {
	w, server, _ := greeted(t)
	get, got := Get("/a")
	xid := sends(t, w, server, get)
	before := allocated()
	frame := zkwire.Frame(append([]any{xid, int64(20), 0, strings.Repeat("x", 2*maxData)}, stat(19)...)...)
	_, err := server.Write(frame)
	require.NoError(t, err)
	require.ErrorIs(t, soon(t, got).Err, ErrTooLong)
	require.Less(t, allocated()-before, uint64(3*len(frame)))

	list, listed := List("/a", false, 0)
	xid = sends(t, w, server, list)
	before = allocated()
	frame = zkwire.Frame(xid, int64(20), 0)
	binary.BigEndian.PutUint32(frame, uint32(replyHead+33<<20))
	_, err = server.Write(frame)
	require.NoError(t, err)
	some := make([]byte, 1<<20)
	for range 33 {
		_, err := server.Write(some)
		require.NoError(t, err)
	}
	require.ErrorIs(t, soon(t, listed).Err, ErrTooLong)
	require.Less(t, allocated()-before, uint64(4<<20))

	get, got = Get("/a")
	_, err = server.Write(zkwire.Frame(append([]any{sends(t, w, server, get), int64(20), 0, "note"}, stat(19)...)...))
	require.NoError(t, err)
	require.Equal(t, Reply[Data]{Value: Data{Bytes: []byte("note")}}, soon(t, got))
}

// Each is an error of the connection, and everybody who waits for an answer on it hears of it.
func TestABadAnswerEndsItsConnection(t *testing.T) {
	for name, says := range map[string]func(create int) []byte{
		"to nobody":                  func(int) []byte { return zkwire.Frame(99, int64(9), 0) },
		"to a later request first":   func(create int) []byte { return zkwire.Frame(create-1, int64(9), 0) },
		"of less than a head":        func(int) []byte { return []byte{0, 0, 0, 15} },
		"of less than nothing":       func(int) []byte { return []byte{0x80, 0, 0, 0} },
		"of two gigabytes":           func(int) []byte { return []byte{0x7f, 0xff, 0xff, 0xff} },
		"news without a path":        func(int) []byte { return zkwire.Frame(xidNotification, int64(9), 0, 2, 3) },
		"news that is long":          func(int) []byte { return zkwire.Frame(xidNotification, int64(9), 0, 2, 3, strings.Repeat("x", 2<<20)) },
		"another path than was made": func(create int) []byte { return zkwire.Frame(create, int64(9), 0, "/b/x-0000000001") },
		"a path without a number":    func(create int) []byte { return zkwire.Frame(create, int64(9), 0, "/a/x-") },
		"a path that goes on":        func(create int) []byte { return zkwire.Frame(create, int64(9), 0, "/a/x-/000000001") },
	} {
		t.Run(name, func(t *testing.T) {
			w, server, _ := greeted(t)
			create, created := Create(numbered, nil)
			xid := sends(t, w, server, create)
			later, synced := Sync("/a")
			sends(t, w, server, later)
			go func() { _, _ = server.Write(says(xid)) }()
			require.Error(t, soon(t, created).Err)
			require.Equal(t, gozk.ErrConnectionClosed, soon(t, synced).Err)
			soon(t, w.Gone())
			require.ErrorIs(t, w.session.(*fake).troubles.Last(), ErrMalformed)
		})
	}
}

// Our numbers stay below zero, because the library's own are above.
func TestNumbersOfRequestsBeginAgain(t *testing.T) {
	w, server, _ := greeted(t)
	w.lastXid = math.MinInt32 + 1
	for _, want := range []int{math.MinInt32, lowestXid - 1, lowestXid - 2} {
		sync, synced := Sync("/a")
		require.Equal(t, want, sends(t, w, server, sync))
		_, err := server.Write(zkwire.Frame(want, int64(9), 0, "/a"))
		require.NoError(t, err)
		require.NoError(t, soon(t, synced).Err)
	}
}
