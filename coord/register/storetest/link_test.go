package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/leak"
	"github.com/turnwise/turnwise/internal/memory"
)

// TestLinkWithoutFaults shows that a store is the same at the end of a link.
func TestLinkWithoutFaults(t *testing.T) {
	Run(t, func(t testing.TB) *System {
		sys := flawedSystem(t, flawless)
		far := *sys
		far.Open = func(t testing.TB) register.Store {
			l := NewLink(sys.Open(t))
			t.Cleanup(func() { _ = l.Store.Close() })
			return l.Store
		}
		return &far
	})
}

// onLink gives a scene a store with a link, and the same store without.
func onLink(t *testing.T) (s *scene, l *Link, clean register.Store) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	m := memory.NewStore()
	l = NewLink(m)
	t.Cleanup(func() { _ = l.Store.Close() })
	return &scene{TB: t, sys: memorySystem(m), prefix: "line/", ctx: ctx, patience: 5 * time.Second}, l, m
}

func TestFatesOfASwap(t *testing.T) {
	for fate, want := range map[drivertest.Fate]struct{ atOnce, late bool }{
		drivertest.LostBefore:  {false, false},
		drivertest.LostAfter:   {true, true},
		drivertest.AppliedLate: {false, true},
	} {
		t.Run(fate.String(), func(t *testing.T) {
			s, l, clean := onLink(t)
			met := l.Fate(fate)
			other := s.swap(l.Store, register.Swap{Key: "session/1", Next: register.NewVersion(), Value: []byte("not of a line")})
			s.stands(clean, other)
			sw := register.Swap{Key: s.key("k"), Next: register.NewVersion(), Value: []byte("x")}
			if _, err := l.Store.Swap(s.ctx, sw); !errors.Is(err, drivertest.ErrLinkLost) {
				t.Errorf("Swap: %v, want ErrLinkLost", err)
			}
			<-met
			applied := func() bool { return s.read(clean, sw.Key).Version == sw.Next }
			if applied() != want.atOnce {
				t.Errorf("applied at once: %v, want %v", applied(), want.atOnce)
			}
			if time.Sleep(2 * drivertest.Late); applied() != want.late {
				t.Errorf("applied at last: %v, want %v", applied(), want.late)
			}
			s.swap(l.Store, register.Swap{Key: s.key("next"), Next: register.NewVersion()})
		})
	}
}

func TestALateSwapFindsThatItIsLate(t *testing.T) {
	s, l, clean := onLink(t)
	first := s.put(l.Store, s.key("k"), register.Version{}, "one")
	l.Fate(drivertest.AppliedLate)
	_, _ = l.Store.Swap(s.ctx, register.Swap{Key: first.Key, Old: first.Version, Next: register.NewVersion(), Value: []byte("late")})
	fenced := s.put(l.Store, first.Key, first.Version, "two")
	time.Sleep(2 * drivertest.Late)
	s.stands(clean, fenced)
}

func TestFreeze(t *testing.T) {
	s, l, clean := onLink(t)
	e := s.listen(l.Store, "t")
	tell := func(key, text string) register.Swap {
		return register.Swap{Key: s.key(key), Next: register.NewVersion(), Value: []byte("x"), Notes: []register.Note{{Topic: "t", Text: []byte(text)}}}
	}
	for name, frozen := range map[string]struct {
		way     drivertest.Direction
		applied bool
	}{"requests": {drivertest.Requests, false}, "replies": {drivertest.Replies, true}, "both": {drivertest.Both, false}} {
		thaw := l.Freeze(frozen.way)
		sw := tell(name, name)
		ctx, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
		if _, err := l.Store.Swap(ctx, sw); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s frozen: Swap: %v", name, err)
		}
		cancel()
		if applied := s.read(clean, sw.Key).Version == sw.Next; applied != frozen.applied {
			t.Errorf("%s frozen: the swap was applied: %v, want %v", name, applied, frozen.applied)
		}
		if e.heardNote(name) {
			t.Errorf("%s frozen: a note came through", name)
		}
		s.swap(clean, tell(name+" elsewhere", "elsewhere, "+name))
		if time.Sleep(20 * time.Millisecond); e.heardNote("elsewhere, "+name) != (frozen.way == drivertest.Requests) {
			t.Errorf("%s frozen: a note of others was heard: %v", name, e.heardNote("elsewhere, "+name))
		}
		thaw()
		thaw()
		s.hears(e, name)
		s.hears(e, "elsewhere, "+name)
		s.stands(clean, register.Item{Key: sw.Key, Value: sw.Value, Version: sw.Next})
	}
}

func TestCut(t *testing.T) {
	s, l, clean := onLink(t)
	e := s.listen(l.Store, "t")
	heal := l.Cut()
	start := time.Now()
	if _, err := l.Store.Read(s.ctx, "k"); !errors.Is(err, drivertest.ErrLinkLost) || time.Since(start) > time.Second {
		t.Errorf("Read while the link is cut: %v after %v", err, time.Since(start))
	}
	if _, err := l.Store.Listen(s.ctx, "t", func([]byte) {}); !errors.Is(err, drivertest.ErrLinkLost) {
		t.Errorf("Listen while the link is cut: %v", err)
	}
	s.put(clean, "k", register.Version{}, "x", register.Note{Topic: "t", Text: []byte("unheard")})
	time.Sleep(20 * time.Millisecond)
	if got := e.all(); len(got) > 0 {
		t.Errorf("heard while the link is cut: %v", got)
	}
	heal()
	s.eventually(s.patience, "those who listen are told of the loss", func() bool {
		all := e.all()
		return len(all) == 1 && all[0].lost
	})
	s.put(clean, "k2", register.Version{}, "x", register.Note{Topic: "t", Text: []byte("heard")})
	s.hears(e, "heard")
	s.quiet(e, "heard")
}

func TestACutBreaksWhatIsUnderWay(t *testing.T) {
	s, l, clean := onLink(t)
	defer l.Freeze(drivertest.Requests)()
	result := make(chan error, 1)
	go func() {
		_, err := l.Store.Swap(s.ctx, register.Swap{Key: s.key("k"), Next: register.NewVersion()})
		result <- err
	}()
	time.Sleep(20 * time.Millisecond)
	l.Cut()()
	if err := <-result; !errors.Is(err, drivertest.ErrLinkLost) {
		t.Errorf("Swap: %v", err)
	}
	time.Sleep(20 * time.Millisecond)
	s.stands(clean, register.Item{Key: s.key("k")})
}

// Nobody waits for the answer to a request that is never carried out.
func TestAfterCallsThatGetNoAnswerNothingStays(t *testing.T) {
	_, l, _ := onLink(t)
	ended, end := context.WithCancel(t.Context())
	end()
	frozen := func() {
		defer l.Freeze(drivertest.Requests)()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, _ = l.Store.Listen(ctx, "t", func([]byte) {})
		l.Cut()()
	}
	for what, call := range map[string]func(){
		"in a context that has ended": func() { _, _ = l.Store.Listen(ended, "t", func([]byte) {}) },
		"while the link is cut": func() {
			defer l.Cut()()
			_, _ = l.Store.Listen(t.Context(), "t", func([]byte) {})
		},
		"before the connection breaks": frozen,
	} {
		if before, after := leak.Growth(50, call); after > before+5 {
			t.Errorf("%s: %d goroutines, %d after 50 calls", what, before, after)
		}
	}
}

// A caller may leave at the very moment at which the answer comes.
func TestListeningThatNobodyWaitsForEnds(t *testing.T) {
	s, l, clean := onLink(t)
	var heard atomic.Int64
	for i := range 2000 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%100)*time.Microsecond)
		if stop, err := l.Store.Listen(ctx, "t", func([]byte) { heard.Add(1) }); err == nil {
			stop()
		}
		cancel()
	}
	s.eventually(s.patience, "nobody listens", func() bool {
		before := l.Traffic().Events
		s.put(clean, s.key(rand.Text()), register.Version{}, "x", register.Note{Topic: "t", Text: []byte("news")})
		time.Sleep(20 * time.Millisecond)
		return l.Traffic().Events == before
	})
	if n := heard.Load(); n > 0 {
		t.Errorf("%d notes were heard by those who had left", n)
	}
}

func TestDelay(t *testing.T) {
	s, l, _ := onLink(t)
	restore := l.Delay(30 * time.Millisecond)
	start := time.Now()
	s.read(l.Store, "k")
	if took := time.Since(start); took < 60*time.Millisecond {
		t.Errorf("a read took %v with a delay of 30 ms each way", took)
	}
	restore()
}

func TestASwapThatIsSlowToArriveIsOvertaken(t *testing.T) {
	s, l, clean := onLink(t)
	l.Linger(drivertest.Requests, 200*time.Millisecond)
	result := make(chan error, 1)
	go func() {
		_, err := l.Store.Swap(s.ctx, register.Swap{Key: s.key("k"), Next: register.NewVersion(), Value: []byte("slow")})
		result <- err
	}()
	time.Sleep(50 * time.Millisecond)
	quick := s.put(l.Store, s.key("k"), register.Version{}, "quick")
	if err := <-result; !errors.Is(err, register.ErrConflict) {
		t.Errorf("the slow swap: %v, want ErrConflict", err)
	}
	s.stands(clean, quick)
}

func TestASwapWhoseAnswerIsSlow(t *testing.T) {
	s, l, clean := onLink(t)
	e := s.listen(l.Store, "t")
	met := l.Linger(drivertest.Replies, 300*time.Millisecond)
	sw := register.Swap{Key: s.key("k"), Next: register.NewVersion(), Value: []byte("x"), Notes: []register.Note{{Topic: "t", Text: []byte("news")}}}
	result := make(chan error, 1)
	go func() {
		_, err := l.Store.Swap(s.ctx, sw)
		result <- err
	}()
	<-met
	s.hears(e, "news")
	s.stands(clean, register.Item{Key: sw.Key, Value: sw.Value, Version: sw.Next})
	select {
	case err := <-result:
		t.Errorf("the answer came before its news: %v", err)
	default:
	}
	if err := <-result; err != nil {
		t.Errorf("Swap: %v", err)
	}
}

func TestTraffic(t *testing.T) {
	s, l, clean := onLink(t)
	e := s.listen(l.Store, "t")
	spent := func(f func()) drivertest.Traffic {
		before := l.Traffic()
		f()
		return l.Traffic().Sub(before)
	}
	value := string(make([]byte, 1000))
	var it register.Item
	if got := spent(func() { it = s.put(l.Store, s.key("k"), register.Version{}, value) }); got.Writes != 1 || got.Reads != 0 || got.Sent < 1000 || got.Received > 500 {
		t.Errorf("a swap of a line: %+v", got)
	}
	if got := spent(func() { s.read(l.Store, it.Key) }); got.Writes != 0 || got.Reads != 1 || got.Sent > 500 || got.Received < 1000 {
		t.Errorf("a read: %+v", got)
	}
	if got := spent(func() { s.put(l.Store, "session/1", register.Version{}, value) }); got.Requests() != 0 || got.Sent < 1000 {
		t.Errorf("a renewal: %+v", got)
	}
	if got := spent(func() { s.put(l.Store, "data/1", register.Version{}, value) }); got.Writes != 1 {
		t.Errorf("a swap of data: %+v", got)
	}
	if got := spent(func() {
		s.put(clean, "k", register.Version{}, "x", register.Note{Topic: "t", Text: []byte("one")}, register.Note{Topic: "t", Text: []byte("two")})
		s.hears(e, "two")
	}); got.Events != 2 || got.Requests() != 0 {
		t.Errorf("two notes: %+v", got)
	}
}
