package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/redis/internal/redistest"
	"github.com/turnwise/turnwise/coord/redis/internal/server"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// shared opens a store with a root of its own in a Redis that other tests use as well.
func shared(t *testing.T, opts ...Option) *Store {
	t.Helper()
	return open1(t, servers.Redis(t, servers.Shared()).Addrs()[0], append([]Option{WithRoot(t.Name())}, opts...)...)
}

func open1(t *testing.T, address string, opts ...Option) *Store {
	t.Helper()
	s, err := Open(redistest.Within(t, 20*time.Second), address, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestASwapNeedsTheVersionThatStands(t *testing.T) {
	s, ctx := shared(t), t.Context()
	if it := redistest.Read(t, s, "a"); !it.Version.IsZero() || it.Value != nil || it.Key != "a" {
		t.Errorf("an empty register holds %v", it)
	}
	first := redistest.Put(t, s, "a", "one")
	if it := redistest.Read(t, s, "a"); it.Version != first.Version || string(it.Value) != "one" || it.Age < 0 || it.Age > 10*time.Second {
		t.Errorf("it holds %v", it)
	}
	it, err := s.Swap(ctx, register.Swap{Key: "a", Next: register.NewVersion(), Value: []byte("late")})
	if !errors.Is(err, register.ErrConflict) || string(it.Value) != "one" || it.Version != first.Version {
		t.Errorf("a late swap: %v, %v", it, err)
	}
	second := register.Swap{Key: "a", Old: first.Version, Next: register.NewVersion(), Value: []byte("two")}
	for range 2 { // the second time it comes again
		if it, err := s.Swap(ctx, second); err != nil || string(it.Value) != "two" || it.Version != second.Next {
			t.Errorf("%v, %v", it, err)
		}
	}
	away := register.Swap{Key: "a", Old: second.Next}
	for range 2 {
		if it, err := s.Swap(ctx, away); err != nil || !it.Version.IsZero() || it.Value != nil {
			t.Errorf("%v, %v", it, err)
		}
	}
	if it, err := s.Swap(ctx, second); !errors.Is(err, register.ErrConflict) || !it.Version.IsZero() || it.Key != "a" {
		t.Errorf("a swap that came after the register was deleted: %v, %v", it, err)
	}
}

func TestAgeIsSinceTheSwap(t *testing.T) {
	s := shared(t)
	it := redistest.Put(t, s, "a", "one")
	time.Sleep(50 * time.Millisecond)
	if age := redistest.Read(t, s, "a").Age; age < 50*time.Millisecond || age > 20*time.Second {
		t.Errorf("after 50 ms it is %v", age)
	}
	again, err := s.Swap(t.Context(), register.Swap{Key: "a", Next: it.Version, Value: it.Value})
	if err != nil || again.Age < 50*time.Millisecond {
		t.Errorf("the same swap again: %v, %v", again, err)
	}
	late, err := s.Swap(t.Context(), register.Swap{Key: "a", Next: register.NewVersion(), By: register.NewVersion(), Reserve: time.Second})
	if !errors.Is(err, register.ErrConflict) || late.Age < 50*time.Millisecond {
		t.Errorf("a conflict: %v, %v", late, err)
	}
	if age := redistest.Read(t, s, "a").Age; age < 50*time.Millisecond {
		t.Errorf("after it was reserved it is %v", age)
	}
}

func TestAnyBytesComeBack(t *testing.T) {
	s := shared(t)
	for _, key := range []string{"a", "line/a*[b]?\\", "line/ä b%s{c}", strings.Repeat("k", 1100)} {
		for _, value := range []string{"", "\x00\xff\r\n", strings.Repeat("x", 100_000)} {
			redistest.Put(t, s, key, value)
			if it := redistest.Read(t, s, key); string(it.Value) != value || it.Value == nil {
				t.Errorf("%.20q: %.20q came back as %.20q", key, value, it.Value)
			}
		}
	}
	_, err := s.Swap(t.Context(), register.Swap{Key: "a", Next: register.NewVersion(), Value: make([]byte, server.MaxValue+1)})
	if !errors.Is(err, register.ErrTooLarge) {
		t.Errorf("%d bytes: %v", server.MaxValue+1, err)
	}
}

func TestAListHasAllOfAPrefix(t *testing.T) {
	s := shared(t)
	var want []string
	for i := range 3*server.PageSize + 1 {
		key := fmt.Sprintf("line/%03d", i)
		redistest.Put(t, s, key, key)
		want = append(want, key)
	}
	redistest.Put(t, s, "lime", "x")
	redistest.Put(t, s, "line", "x")
	redistest.Put(t, s, "linf", "x")
	gone := redistest.Put(t, s, "line/gone", "x")
	if _, err := s.Swap(t.Context(), register.Swap{Key: "line/gone", Old: gone.Version}); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := s.List(t.Context(), "line/", func(it register.Item) bool {
		if string(it.Value) != it.Key || it.Version.IsZero() || it.Age < 0 {
			t.Errorf("%v", it)
		}
		got = append(got, it.Key)
		return true
	}); err != nil || !slices.Equal(got, want) {
		t.Errorf("%d of %d, %v", len(got), len(want), err)
	}
	n := 0
	if err := s.List(t.Context(), "", func(register.Item) bool { n++; return n < 70 }); err != nil || n != 70 {
		t.Errorf("it went on to %d, %v", n, err)
	}
}

func TestNotesComeInOrderToEachListener(t *testing.T) {
	s := shared(t)
	other := shared(t)
	a, _ := redistest.Listen(t, s, "a")
	again, stopAgain := redistest.Listen(t, s, "a")
	b, _ := redistest.Listen(t, other, "b")
	var want []string
	for i := range 100 {
		text := fmt.Sprint(i)
		redistest.Put(t, s, "r", text, register.Note{Topic: "a", Text: []byte(text)}, register.Note{Topic: "b", Text: []byte("b" + text)})
		want = append(want, text)
	}
	// A swap that is not applied tells nothing.
	s.Swap(t.Context(), register.Swap{Key: "r", Next: register.NewVersion(), Notes: []register.Note{{Topic: "a", Text: []byte("no")}}})
	a.Await(t, "99")
	again.Await(t, "99")
	b.Await(t, "b99")
	if !slices.Equal(a.Notes(), want) || !slices.Equal(again.Notes(), want) || len(b.Notes()) != 100 {
		t.Errorf("heard %v, %v, %v", a.Notes(), again.Notes(), b.Notes())
	}
	stopAgain()
	redistest.Put(t, s, "r", "", register.Note{Topic: "a", Text: []byte("end")})
	a.Await(t, "end")
	if slices.Contains(again.Notes(), "end") {
		t.Error("one that was stopped heard something")
	}
}

func TestListeningBeginsAnewAfterItWasStopped(t *testing.T) {
	s := shared(t)
	for i := range 50 {
		h, stop := redistest.Listen(t, s, "a")
		text := fmt.Sprint(i)
		redistest.Put(t, s, "r", text, register.Note{Topic: "a", Text: []byte(text)})
		h.Await(t, text)
		if len(h.Notes()) != 1 {
			t.Errorf("heard %v", h.Notes())
		}
		stop()
	}
	address := servers.Redis(t, servers.Shared()).Addrs()[0]
	storecheck.Eventually(t, "to be unsubscribed", func() bool {
		return redistest.CLI(t, address, "PUBSUB", "CHANNELS", t.Name()+":*") == ""
	})
}

func TestNotesInAnotherDatabaseAreOthers(t *testing.T) {
	address := servers.Redis(t, servers.Shared()).Addrs()[0]
	zero := open1(t, "redis://"+address+"/0", WithRoot(t.Name()))
	one := open1(t, "redis://"+address+"/1", WithRoot(t.Name()))
	h, _ := redistest.Listen(t, zero, "a")
	redistest.Put(t, one, "r", "", register.Note{Topic: "a", Text: []byte("one")})
	redistest.Put(t, zero, "r", "", register.Note{Topic: "a", Text: []byte("zero")})
	h.Await(t, "zero")
	if slices.Contains(h.Notes(), "one") {
		t.Error("heard what was told in another database")
	}
}

func TestWhoHearsTooSlowlyIsToldThatSomeMayBeLost(t *testing.T) {
	cluster := servers.Redis(t, servers.Config("client-output-buffer-limit pubsub 100kb 50kb 1"))
	s := open1(t, cluster.Addrs()[0])
	var once sync.Once
	slow := make(chan struct{})
	h := &redistest.Heard{}
	if _, err := s.Listen(t.Context(), "a", func(note []byte) {
		once.Do(func() { <-slow })
		h.Hear(note)
	}); err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("x"), 7000)
	for range 3000 { // 21 MB, more than the sockets hold
		redistest.Put(t, s, "r", "", register.Note{Topic: "a", Text: text})
	}
	close(slow)
	h.Await(t, "lost")
	redistest.Put(t, s, "r", "", register.Note{Topic: "a", Text: []byte("on")})
	h.Await(t, "on")
}

func TestAConnectionThatIsKilledIsMadeAnew(t *testing.T) {
	cluster := servers.Redis(t)
	s := open1(t, cluster.Addrs()[0])
	h, _ := redistest.Listen(t, s, "a")
	for _, kind := range []string{"pubsub", "normal"} {
		redistest.CLI(t, cluster.Addrs()[0], "CLIENT", "KILL", "TYPE", kind)
		storecheck.Eventually(t, "a swap after that", func() bool {
			it, err := s.Read(t.Context(), "r")
			if err == nil {
				_, err = s.Swap(t.Context(), register.Swap{Key: "r", Old: it.Version, Next: register.NewVersion()})
			}
			if errors.Is(err, register.ErrForgot) {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	h.Await(t, "lost")
	redistest.Put(t, s, "r", "", register.Note{Topic: "a", Text: []byte("on")})
	h.Await(t, "on")
}

func TestEveryCallEndsWithItsContext(t *testing.T) {
	cluster := servers.Redis(t)
	s := open1(t, cluster.Addrs()[0])
	it := redistest.Put(t, s, "a", "one")
	cluster.Member(0).Freeze()
	t.Cleanup(cluster.Member(0).Thaw) // after the parallel ones
	for name, call := range map[string]func(context.Context) error{
		"read": func(ctx context.Context) error { _, err := s.Read(ctx, "a"); return err },
		"swap": func(ctx context.Context) error {
			_, err := s.Swap(ctx, register.Swap{Key: "a", Old: it.Version, Next: register.NewVersion()})
			return err
		},
		"list":   func(ctx context.Context) error { return s.List(ctx, "", func(register.Item) bool { return true }) },
		"memory": func(ctx context.Context) error { _, err := s.Memory(ctx); return err },
		"listen": func(ctx context.Context) error { _, err := s.Listen(ctx, "a", func([]byte) {}); return err },
		"open":   func(ctx context.Context) error { _, err := Open(ctx, cluster.Addrs()[0]); return err },
	} {
		for _, how := range []string{"cancelled", "timed out"} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
				if how == "cancelled" {
					ctx, cancel = context.WithCancel(context.Background())
					time.AfterFunc(300*time.Millisecond, cancel)
				}
				defer cancel()
				begun := time.Now()
				err := call(ctx)
				if took := time.Since(begun); err == nil || took > 1500*time.Millisecond {
					t.Errorf("%v after %v", err, took)
				}
				if !errors.Is(err, ctx.Err()) {
					t.Errorf("%v does not say that ctx has ended", err)
				}
			})
		}
	}
}

// A client far away would never win against one that swaps in a tight loop.
func TestWhoReservesTheNextSwapGetsIt(t *testing.T) {
	near, far := shared(t), shared(t)
	it := redistest.Put(t, near, "a", "")
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		by := register.NewVersion()
		for it := it; ; {
			select {
			case <-stop:
				return
			default:
			}
			var err error
			it, err = near.Swap(context.Background(), register.Swap{Key: "a", Old: it.Version, Next: register.NewVersion(), By: by})
			if err != nil && !errors.Is(err, register.ErrConflict) {
				t.Error(err)
				return
			}
		}
	})
	defer running.Wait()
	defer close(stop)
	by := register.NewVersion()
	try := func(reserve time.Duration) bool {
		time.Sleep(20 * time.Millisecond) // the way there and back
		next, err := far.Swap(t.Context(), register.Swap{Key: "a", Old: it.Version, Next: register.NewVersion(), By: by, Reserve: reserve})
		if err != nil && !errors.Is(err, register.ErrConflict) {
			t.Fatal(err)
		}
		it = next
		return err == nil
	}
	limit := time.Now().Add(20 * time.Second)
	for lost := 0; lost < 10; lost++ {
		if try(0) { // the near one was held up
			lost = 0
		}
		if time.Now().After(limit) {
			t.Fatal("it wins without a reservation: this shows nothing")
		}
	}
	try(2 * time.Second)
	if !try(2 * time.Second) {
		t.Error("it lost in spite of its reservation")
	}
	if eventuallyWins := func() bool { // near goes on at once
		before := redistest.Read(t, far, "a").Version
		time.Sleep(100 * time.Millisecond)
		return redistest.Read(t, far, "a").Version != before
	}; !eventuallyWins() {
		t.Error("the reservation outlived its use")
	}
}

func TestAReservationEnds(t *testing.T) {
	s := shared(t)
	it := redistest.Put(t, s, "a", "")
	me, other := register.NewVersion(), register.NewVersion()
	late := register.Swap{Key: "a", Old: register.NewVersion(), Next: register.NewVersion(), By: me, Reserve: 300 * time.Millisecond}
	if _, err := s.Swap(t.Context(), late); !errors.Is(err, register.ErrConflict) {
		t.Fatal(err)
	}
	// Somebody else can neither swap nor reserve it.
	begun := time.Now()
	late.By, late.Reserve = other, time.Hour
	s.Swap(t.Context(), late)
	swap := register.Swap{Key: "a", Old: it.Version, Next: register.NewVersion(), By: other}
	storecheck.Eventually(t, "the reservation to end", func() bool {
		_, err := s.Swap(t.Context(), swap)
		return err == nil
	})
	if took := time.Since(begun); took < 200*time.Millisecond {
		t.Errorf("it ended after %v", took)
	}
}
