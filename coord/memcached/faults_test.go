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

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
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

// A full server throws away what the refused item was to replace. So everybody starts over, and knows it.
func TestAFullServer(t *testing.T) {
	m := server(t, "-m", "4")
	s, other := opened(t, m.Addr()), opened(t, m.Addr())
	it := put(t, s, register.Item{Key: "k"}, "x")
	other.Read(within(t, time.Second), "k")
	full := false
	for n := 0; !full; n++ {
		answer := telnet(t, m.Addr(), fmt.Sprintf("ms junk%d 5000 \r\n%s", n, strings.Repeat("x", 5000)))
		if full = strings.HasPrefix(answer, "SERVER_ERROR"); n > 2000 {
			t.Fatal("it is never full")
		}
	}
	_, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: "k", Old: it.Version, Next: register.NewVersion(), Value: make([]byte, 5000)})
	if !errors.Is(err, register.ErrForgot) || !strings.Contains(err.Error(), "-m") {
		t.Errorf("the swap returns %v", err)
	}
	if _, err := other.Read(within(t, 10*time.Second), "k"); !errors.Is(err, register.ErrForgot) {
		t.Errorf("the other reads: %v", err)
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
