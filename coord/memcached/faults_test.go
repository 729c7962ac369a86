package memcached

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
)

func listed(t testing.TB, s *Store, prefix string) (keys []string) {
	t.Helper()
	if err := s.List(within(t, 10*time.Second), prefix, func(it register.Item) bool {
		keys = append(keys, it.Key)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return keys
}

// Whatever takes the mark away is noticed by the next call, whichever it is.
func TestAServerThatWasEmptiedHasForgotten(t *testing.T) {
	m := server(t)
	for name, empty := range map[string]func(){
		"flush_all": func() { telnet(t, m.Addr(), "flush_all") },
		"the mark":  func() { telnet(t, m.Addr(), "md turnwise.memory") },
		"a restart": func() { m.Restart(t) },
	} {
		for what, call := range storecheck.Calls {
			t.Run(name+", "+what, func(t *testing.T) {
				s := opened(t, m.Addr())
				before, _ := s.Memory(within(t, 10*time.Second))
				it := put(t, s, register.Item{Key: fmt.Sprintf("k %x", register.NewVersion())}, "x")
				empty()
				err := call(t, s, it)
				if err != nil && !errors.Is(err, register.ErrForgot) { // it was sent to the server that is gone
					err = call(t, s, it)
				}
				if !errors.Is(err, register.ErrForgot) {
					t.Fatalf("it returns %v", err)
				}
				after, err := s.Memory(within(t, 10*time.Second))
				if err != nil || after.ID == before.ID || after.For > 10*time.Second {
					t.Errorf("the memory is %+v, %v; it was %+v", after, err, before)
				}
				if got := read(t, s, it.Key); !got.Version.IsZero() {
					t.Errorf("there stands %+v", got)
				}
				put(t, s, register.Item{Key: it.Key}, "again")
			})
		}
	}
}

// Somebody who does not know yet that the server was emptied makes a register there. It does not count.
func TestWhatALateOneLeavesCountsAsNotThere(t *testing.T) {
	m := server(t)
	late, s := opened(t, m.Addr()), opened(t, m.Addr())
	old := knownBy(t, late)
	telnet(t, m.Addr(), "flush_all")
	if _, err := s.Memory(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	w := register.Swap{Key: "k", Next: register.NewVersion(), Value: []byte("late")}
	if a := answers(t, s, add(s.keyOf("k"), encode(old, "k", w.Next, w.Value))); a[0].code != "HD" {
		t.Fatal(a)
	}
	if got := read(t, s, "k"); !got.Version.IsZero() {
		t.Errorf("there stands %+v", got)
	}
	put(t, s, register.Item{Key: "k"}, "in time")
	if got := listed(t, s, ""); len(got) != 1 {
		t.Errorf("listed: %q", got)
	}
}

// filled leaves no room on a server for what is about as long as a line.
func filled(t *testing.T, s *Store) {
	t.Helper()
	for size := 100; size < 8000; size += size / 6 {
		for n, code := 0, "HD"; code == "HD"; n += 200 {
			var some []request
			for i := range 200 {
				some = append(some, add(fmt.Sprintf("junk/%d/%d", size, n+i), make([]byte, size)))
			}
			code = answers(t, s, some...)[199].code
		}
	}
}

// What a full server refuses leaves what stood there, whoever hears of it.
func TestAFullServerThrowsNothingAway(t *testing.T) {
	m := server(t, "-m", "4")
	s, other := opened(t, m.Addr()), opened(t, m.Addr())
	it := put(t, s, register.Item{Key: "k"}, "x")
	filled(t, s)
	long := make([]byte, 5000)
	_, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: "k", Old: it.Version, Next: register.NewVersion(), Value: long})
	if err == nil || errors.Is(err, register.ErrForgot) || !strings.Contains(err.Error(), "-m") {
		t.Errorf("the swap returns %v", err)
	}
	at := answers(t, s, get(s.keyOf("k")))[0]
	for what, q := range map[string]request{
		"made": add(s.keyOf("k"), long), "changed": replace(s.keyOf("k"), at.cas, long), "longer": extend(s.keyOf("k"), long),
	} {
		if a := answers(t, s, q)[0]; !strings.HasPrefix(a.code, "SERVER_ERROR out of memory") {
			t.Errorf("%s: the server says %q", what, a.code)
		}
		if got := read(t, other, "k"); got.Version != it.Version {
			t.Errorf("%s: there stands %+v", what, got)
		}
	}
	if got := listed(t, other, ""); len(got) != 1 {
		t.Errorf("listed: %q", got)
	}
}

// One joins a line, and is refused since the server is full. He may be gone before he can tell anybody.
func TestNobodyEntersALineWhoseServerHasRefusedAnother(t *testing.T) {
	m := server(t, "-m", "4")
	s := opened(t, m.Addr())
	a, b := neighbours(t, m)
	for _, c := range []*coord.Client{a, b} {
		storecheck.Locked(t, c, "warm").Release()
	}
	h := storecheck.Locked(t, a, "orders")
	line := read(t, s, "line/orders")
	filled(t, s)
	long := make([]byte, 5000)
	if a := answers(t, s, replace(s.keyOf(line.Key), s.seen.of(knownBy(t, s), line.Key, line.Version), long))[0]; a.code == "HD" {
		t.Fatal("there was room")
	}
	if _, err := mutex.New(b, "orders").TryLock(within(t, 5*time.Second)); err == nil && h.Err() == nil {
		t.Error("two hold")
	}
	if got := read(t, s, line.Key); got.Version != line.Version {
		t.Errorf("the line is another one: %+v", got)
	}
}

// Four clients count while the server is stopped now and then, and calls are given up.
func TestNothingIsLostOrDoneTwice(t *testing.T) {
	m := server(t)
	var clients []register.Store
	for range 4 {
		clients = append(clients, impatient{opened(t, m.Addr())})
	}
	storecheck.Count(t, func() { m.Freeze(); time.Sleep(100 * time.Millisecond); m.Thaw() }, clients...)
}

// impatient gives up one swap in four very soon.
type impatient struct{ *Store }

func (s impatient) Swap(ctx context.Context, w register.Swap) (register.Item, error) {
	if rand.N(4) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, rand.N(200*time.Microsecond))
		defer cancel()
	}
	return s.Store.Swap(ctx, w)
}

// Keys of registers that are gone leave the directory, while others are made again all the time and stay in it.
func TestTheDirectoryForgetsWhatIsGoneAndNothingElse(t *testing.T) {
	m := server(t)
	var stop atomic.Bool
	var all sync.WaitGroup
	for i := range 2 {
		s := opened(t, m.Addr())
		s.pruneAfter = 40 * time.Millisecond
		all.Go(func() { // it makes and removes a register, and is listed in between
			key := fmt.Sprint("fleeting ", i)
			for !stop.Load() {
				it := put(t, s, register.Item{Key: key}, "x")
				if got := listed(t, s, key); len(got) != 1 {
					t.Errorf("%q stands, and is not listed", key)
					stop.Store(true)
				}
				if _, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: key, Old: it.Version}); err != nil {
					t.Error(err)
				}
				time.Sleep(rand.N(80 * time.Millisecond))
			}
		})
	}
	s := opened(t, m.Addr())
	s.pruneAfter = 40 * time.Millisecond
	for i := range 50 {
		it := put(t, s, register.Item{Key: fmt.Sprint("gone ", i)}, "x")
		if _, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: it.Key, Old: it.Version}); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	for left := 1; left > 0 && time.Since(begun) < 20*time.Second || time.Since(begun) < 2*time.Second; time.Sleep(10 * time.Millisecond) {
		listed(t, s, "")
		left = 0
		for n := range shelves {
			a := answers(t, s, get(s.shelfKey(knownBy(t, s), n)))
			keys, err := decodeShelf(knownBy(t, s), a[0])
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range keys {
				if strings.HasPrefix(e.key, "gone") {
					left++
				}
			}
		}
		if left > 0 && time.Since(begun) > 19*time.Second {
			t.Errorf("%d keys stay in the directory", left)
		}
	}
	stop.Store(true)
	all.Wait()
}

func TestAConnectionThatIsSlowToBeMadeIsMade(t *testing.T) {
	storecheck.SlowToConnect(t, server(t), 100*time.Millisecond, func(ctx context.Context, url string) (register.Store, error) {
		return Open(ctx, strings.TrimPrefix(url, "memcached://"))
	})
}
