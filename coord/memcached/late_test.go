package memcached

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

// slowly returns an address that leads to the server. The n-th request there that has a text in it is held up: held is closed
// when it has come, and it goes on when let is closed.
func slowly(t testing.TB, server, text string, n int64) (address string, held, let chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	held, let = make(chan struct{}), make(chan struct{})
	var seen atomic.Int64
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
					if bytes.Contains(b[:size], []byte(text)) && seen.Add(1) == n {
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
	for n, what := range []string{"the mark", "its date"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			m := server(t)
			address, held, let := slowly(t, m.Addr(), "ms turnwise.memory", int64(n)+1)
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
