package memcached

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
)

// slowly returns an address that leads to the server. The first request there that has a text in it is held up: held is closed
// when it has come, and it goes on when let is closed.
func slowly(t testing.TB, server, text string) (address string, held, let chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	held, let = make(chan struct{}), make(chan struct{})
	var seen atomic.Bool
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				near.Close()
				continue
			}
			t.Cleanup(func() { near.Close(); far.Close() })
			go func() { io.Copy(near, far); near.Close() }()
			go func() {
				defer far.Close()
				b := make([]byte, 64<<10)
				for {
					size, err := near.Read(b)
					if err != nil {
						return
					}
					if bytes.Contains(b[:size], []byte(text)) && seen.CompareAndSwap(false, true) {
						close(held)
						<-let
					}
					if _, err := far.Write(b[:size]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String(), held, let
}

// Whoever begins a memory is held up, at either of the two requests that it takes, and the server is emptied meanwhile.
func TestAMemoryIsNoOlderThanTheServerWasEmptied(t *testing.T) {
	for what, request := range map[string]string{"the mark": "add turnwise.memory", "its date": "cas turnwise.memory"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			m := server(t)
			address, held, let := slowly(t, m.Addr(), request)
			opening := make(chan *Store, 1)
			go func() { opening <- opened(t, address) }()
			select {
			case <-held:
			case <-time.After(20 * time.Second):
				t.Fatal("there was no such request")
			}
			time.Sleep(5 * time.Second)
			telnet(t, m.Addr(), "flush_all")
			emptied := time.Now()
			close(let)
			for _, s := range []*Store{<-opening, opened(t, m.Addr())} {
				mem, err := s.Memory(within(t, 10*time.Second))
				if err != nil || mem.For > time.Since(emptied) {
					t.Errorf("it has remembered for %v, %v; it was emptied %v ago", mem.For, err, time.Since(emptied))
				}
			}
		})
	}
}

// The numbers that a server gives to items are the same again after a restart. A client that was away goes by one of them.
func TestAClientThatWasAwayDuringARestartReplacesNothing(t *testing.T) {
	m := server(t)
	away := opened(t, m.Addr())
	it := put(t, away, register.Item{Key: "k"}, "x")
	number := away.seen.of(knownBy(t, away), "k", it.Version)
	m.Restart(t)
	away.pool.Drop() // it finds out as soon as it uses one
	s := opened(t, m.Addr())
	now := register.Item{Key: "k"}
	for a := (reply{}); a.cas < number; a = answers(t, s, get(s.keyOf("k")))[0] {
		now = put(t, s, now, "today")
	}
	if a := answers(t, s, get(s.keyOf("k")))[0]; a.cas != number {
		t.Fatalf("the number is %d, not %d: this shows nothing", a.cas, number)
	}
	_, err := away.Swap(within(t, 10*time.Second), register.Swap{Key: "k", Old: it.Version, Next: register.NewVersion(), Value: []byte("yesterday")})
	if !errors.Is(err, register.ErrForgot) {
		t.Errorf("the swap returns %v", err)
	}
	if got := read(t, s, "k"); got.Version != now.Version {
		t.Errorf("there stands %+v; it was %+v", got, now)
	}
}

// Two requests of one trip: one swaps, one asks what number that has got. Somebody else swaps in between, and that number is his.
func TestANumberThatIsAnothersIsNotBelieved(t *testing.T) {
	m := server(t)
	direct := opened(t, m.Addr())
	var between atomic.Pointer[func()]
	address := storecheck.Serve(t, func(c net.Conn) {
		far, err := net.Dial("tcp", m.Addr())
		if err != nil {
			return
		}
		defer far.Close()
		go func() { io.Copy(c, far); c.Close() }()
		r := bufio.NewReader(c)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if do := between.Load(); do != nil && line == "mg turnwise:k c f\r\n" && between.CompareAndSwap(do, nil) {
				(*do)()
			}
			io.WriteString(far, line)
		}
	})
	s := opened(t, address)
	it := put(t, s, register.Item{Key: "k"}, "1")
	do := func() {
		for now := read(t, direct, "k"); string(now.Value) != "2"; now = read(t, direct, "k") {
			time.Sleep(time.Millisecond) // until it is swapped
		}
		put(t, direct, read(t, direct, "k"), "another's")
	}
	between.Store(&do)
	it = put(t, s, it, "2")
	if between.Load() != nil {
		t.Fatal("nobody asked for a number: this shows nothing")
	}
	_, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: "k", Old: it.Version, Next: register.NewVersion(), Value: []byte("3")})
	if !errors.Is(err, register.ErrConflict) {
		t.Errorf("the swap returns %v", err)
	}
	if got := read(t, direct, "k"); string(got.Value) != "another's" {
		t.Errorf("there stands %q", got.Value)
	}
}
