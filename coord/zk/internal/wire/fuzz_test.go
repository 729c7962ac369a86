package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
)

// script is a connection on which the server says what it is given to say, and hears nothing.
type script struct {
	net.Conn
	says io.Reader
}

func (s *script) Read(p []byte) (int, error)      { return s.says.Read(p) }
func (s *script) Write(p []byte) (int, error)     { return len(p), nil }
func (s *script) SetReadDeadline(time.Time) error { return nil }
func (s *script) Close() error                    { return nil }

// sober is a session that runs everything right away.
type sober struct{ *fake }

func (sober) Go(f func()) bool           { f(); return true }
func (sober) Failed(string, error, bool) {}

// scripted is a connection that has sent its greeting, and on which the server will say something given.
func scripted(says []byte) *Conn {
	w := New(&script{says: bytes.NewReader(says)}, "a", Hello{Timeout: 10 * time.Second}, sober{&fake{}})
	_, _ = w.Write(zkwire.Frame(0, int64(5), 77, int64(0), "0123456789abcdef"))
	return w
}

var goodGreeting = zkwire.Frame(0, 10_000, int64(42), "0123456789abcdef", false)

// readAll reads as the library does. It returns what the library gets after the greeting.
func readAll(t *testing.T, w *Conn) []byte {
	b, err := io.ReadAll(w)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, ErrForeign) && !errors.Is(err, ErrMalformed) {
		t.Fatal(err)
	}
	return b
}

// deserved fails the test if more memory was taken than n bytes deserve.
func deserved(t *testing.T, before uint64, n int) {
	if took := allocated() - before; took > uint64(256<<10+64*n) {
		t.Fatalf("%d bytes took %d of memory", n, took)
	}
}

func FuzzGreeting(f *testing.F) {
	f.Add(goodGreeting)
	f.Add(zkwire.Frame(0, 1, int64(42), "0123456789abcdef", false))
	f.Add(zkwire.Frame(0, 10_000, int64(42), 0x7fffffff, int64(0), int64(0)))
	f.Add(zkwire.Frame(0, 0, int64(0), string(make([]byte, 16))))
	f.Fuzz(func(t *testing.T, says []byte) {
		before := allocated()
		w := scripted(says)
		b := readAll(t, w)
		deserved(t, before, len(says))
		if len(b) == 0 {
			return
		}
		told := int32(binary.BigEndian.Uint32(b[8:]))
		if id := binary.BigEndian.Uint64(b[12:]); id != 0 && told < 50 || binary.BigEndian.Uint32(b[20:]) != 16 {
			t.Fatalf("the library gets %x", b)
		}
	})
}

// FuzzStream has the server say anything while one request of each kind waits for an answer.
func FuzzStream(f *testing.F) {
	create := lowestXid - 1
	f.Add(slices.Concat(
		zkwire.Frame(create, int64(9), 0, "/a/x-0000000001"),
		zkwire.Frame(xidNotification, int64(-1), 0, 2, 3, "/a"),
		zkwire.Frame(append([]any{create - 1, int64(9), 0, 2, "x-1", "x-2"}, stat(19)...)...),
		zkwire.Frame(append([]any{create - 2, int64(9), 0, "note"}, stat(19)...)...),
		zkwire.Frame(create-3, int64(9), 0, 1, "/a/x-0000000001"),
		zkwire.Frame(create-4, int64(9), 0),
		zkwire.Frame(xidPing, int64(9), 0),
		zkwire.Frame(append([]any{1, int64(9), 0}, stat(19)...)...)))
	f.Add([]byte{0x10, 0, 0, 0, 0xff, 0xff, 0xff, 0x9b, 0, 0})
	f.Add([]byte{0, 0, 0, 3, 1, 2, 3})
	f.Fuzz(func(t *testing.T, says []byte) {
		before := allocated()
		w := scripted(append(slices.Clone(goodGreeting), says...))
		answered := 0
		count := func() { answered++ }
		create, _ := Create(numbered, nil)
		all, _ := CreateAll([]Node{{Path: "/a", Flags: gozk.FlagContainer}, numbered}, nil)
		list, _ := List("/a", false, 0)
		get, _ := Get("/a")
		requests := []Request{
			create, list, get, Ephemerals("/a", func([]string, error) {}), Check("/a", func(error) {}),
			Watch(1, [3][]string{}, func(error) {}), Unwatch("/a", true, func(error) {}), all,
		}
		for i := range requests {
			requests[i] = requests[i].Then(count)
		}
		w.Send(requests...)
		_, _ = w.Write(zkwire.Frame(xidPing, opPing))
		_, _ = w.Write(zkwire.Frame(1, opExists, "/a", false))
		readAll(t, w)
		w.Close()
		if answered != len(requests) {
			t.Fatalf("%d of %d requests have an answer", answered, len(requests))
		}
		deserved(t, before, len(says))
	})
}

// FuzzAnswers has the server say anything in answer to one request.
func FuzzAnswers(f *testing.F) {
	f.Add(uint8(0), int32(0), zkwire.Frame("/a/x-0000000001")[4:])
	f.Add(uint8(1), int32(0), zkwire.Frame(append([]any{2, "x-1", "x-2"}, stat(19)...)...)[4:])
	f.Add(uint8(1), int32(0), zkwire.Frame(0x7fffffff, int64(0))[4:])
	f.Add(uint8(2), int32(0), zkwire.Frame(append([]any{"note"}, stat(19)...)...)[4:])
	f.Add(uint8(2), int32(-101), []byte{})
	f.Add(uint8(3), int32(0), zkwire.Frame(1, "/a/x-0000000001")[4:])
	f.Add(uint8(4), int32(0), zkwire.Frame(2, 3, "/a")[4:])
	f.Fuzz(func(t *testing.T, which uint8, code int32, body []byte) {
		before := allocated()
		xid := lowestXid - 1
		if which%5 == 4 {
			xid = xidNotification
		}
		w := scripted(append(slices.Clone(goodGreeting), reply(xid, code, body)...))
		var check func()
		switch which % 5 {
		case 0:
			r, created := Create(numbered, nil)
			w.Send(r)
			check = func() {
				if c := <-created; c.Err == nil && (len(c.Value) < len("/a/x-0000000001") || c.Value[:5] != "/a/x-") {
					t.Fatalf("%q was made", c.Value)
				}
			}
		case 1:
			r, listed := List("/a", false, 7)
			w.Send(r)
			check = func() {
				l := <-listed
				if l.Err == nil && (l.Value.Born < 0 || l.Value.AsOf < 7 || slices.Contains(l.Value.Names, "")) {
					t.Fatalf("%+v", l.Value)
				}
			}
		case 2:
			r, got := Get("/a")
			w.Send(r)
			check = func() { <-got }
		case 3:
			w.Send(Ephemerals("/a", func([]string, error) {}))
		}
		readAll(t, w)
		w.Close()
		if check != nil {
			check()
		}
		deserved(t, before, len(body))
	})
}

// FuzzLibrary has the server say anything in answer to a request of the client library, which is a real one here.
func FuzzLibrary(f *testing.F) {
	conn, servers, _ := libraryOn(f)
	server := <-servers
	f.Add(uint8(libraryMulti), int32(0), []byte{0, 0, 0, 1})
	f.Add(uint8(libraryMulti), int32(0), []byte{0, 0, 0, 2, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0})
	f.Add(uint8(libraryMulti), int32(0), []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x9b, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0})
	f.Add(uint8(1), int32(0), zkwire.Frame("/a")[4:])
	f.Add(uint8(3), int32(0), zkwire.Frame(stat(19)...)[4:])
	f.Add(uint8(5), int32(0), zkwire.Frame(append([]any{1, 31, "world", "anyone"}, stat(19)...)...)[4:])
	f.Add(uint8(8), int32(0), zkwire.Frame(append([]any{"note"}, stat(19)...)...)[4:])
	f.Add(uint8(9), int32(0), zkwire.Frame(append([]any{2, "x-1", "x-2"}, stat(19)...)...)[4:])
	f.Add(uint8(0), int32(-101), []byte{})
	f.Fuzz(func(t *testing.T, which uint8, code int32, body []byte) {
		said := make(chan error, 1)
		go func() { said <- libraryAsks[int(which)%len(libraryAsks)](conn) }()
		for {
			_ = server.SetDeadline(time.Now().Add(patience))
			asked, err := zkwire.ReadFrame(server)
			if err != nil { // the previous answer was bad
				server = soon(t, servers)
				continue
			}
			if xid := xidOf(asked); xid != xidPing {
				_, _ = server.Write(reply(xid, code, body))
				break
			}
			_, _ = server.Write(zkwire.Frame(xidPing, int64(9), 0))
		}
		if err := soon(t, said); err == gozk.ErrConnectionClosed {
			server.Close()
			server = soon(t, servers)
		}
	})
}
