package kube

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
)

// heard is what somebody has been told; "nil" stands for nil.
type heard struct {
	mu  sync.Mutex
	all []string
}

func (h *heard) hear(note []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if note == nil {
		h.all = append(h.all, "nil")
		return
	}
	h.all = append(h.all, string(note))
}

func (h *heard) has(text string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.all, text)
}

func listens(t testing.TB, s *Store, topic string) *heard {
	t.Helper()
	h := &heard{}
	stop, err := s.Listen(within(t, 10*time.Second), topic, h.hear)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return h
}

// tell swaps a register and tells a topic.
func tell(t testing.TB, s *Store, it register.Item, topic, text string) register.Item {
	t.Helper()
	it, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: it.Key, Old: it.Version, Next: register.NewVersion(), Value: []byte("x"),
		Notes: []register.Note{{Topic: topic, Text: []byte(text)}}})
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// A watch that is cut goes on where it was, and nobody needs to be told that something may be lost.
func TestAWatchThatIsCutLosesNothing(t *testing.T) {
	f := newFake(t)
	a, b := opened(t, f.options(t)...), opened(t, f.options(t)...)
	it := tell(t, b, register.Item{Key: "k"}, "t", "before")
	h := listens(t, a, "t")
	for _, text := range []string{"one", "two", "three", "four"} {
		f.cut(func() {
			storecheck.Eventually(t, "it can be told", func() bool {
				_, err := b.Read(within(t, time.Second), "k")
				return err == nil
			})
			it = tell(t, b, it, "t", text)
		})
		storecheck.Eventually(t, "it is heard", func() bool { return h.has(text) })
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if want := []string{"one", "two", "three", "four"}; !slices.Equal(h.all, want) {
		t.Errorf("heard %q", h.all)
	}
}

// What was told while the watch was cut is thrown away by the server: that is said, and later notes are heard.
func TestWhatTheServerHasThrownAwayIsSaidToBeLost(t *testing.T) {
	f := newFake(t)
	s := opened(t, f.options(t)...)
	h := listens(t, s, "t")
	tell(t, s, register.Item{Key: "k"}, "t", "one")
	storecheck.Eventually(t, "it is heard", func() bool { return h.has("one") })
	f.mu.Lock() // others write, which this watch is not told
	f.rev += 10
	f.mu.Unlock()
	f.compact()
	storecheck.Eventually(t, "it is told that something may be lost", func() bool { return h.has("nil") })
	storecheck.Eventually(t, "later notes are heard", func() bool {
		tell(t, s, read(t, s, "k"), "t", "later")
		return h.has("later")
	})
}

// Many of them do not fit into an annotation.
func TestNotesThatAreTooManyAreSaidToBeLost(t *testing.T) {
	f := newFake(t)
	s := opened(t, f.options(t)...)
	h := listens(t, s, "t")
	w := register.Swap{Key: "k", Next: register.NewVersion(), Value: make([]byte, maxValue)}
	for range 20 {
		w.Notes = append(w.Notes, register.Note{Topic: "t", Text: []byte(strings.Repeat("x", 7000))})
	}
	if _, err := s.Swap(within(t, 10*time.Second), w); err != nil {
		t.Fatal(err)
	}
	storecheck.Eventually(t, "it is told that something may be lost", func() bool { return h.has("nil") })
}

// What the server is too busy to look at is sent again when it says.
func TestABusyServerIsAskedAgainWhenItSays(t *testing.T) {
	f := newFake(t)
	var busy atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if busy.Add(-1) >= 0 {
			w.Header().Set("Retry-After", "1")
			refuse(w, 429, "TooManyRequests", "too many requests", nil)
			return
		}
		f.serve(w, r)
	}))
	t.Cleanup(server.Close)
	s := opened(t, WithServer(server.URL))
	busy.Store(2)
	begun := time.Now()
	put(t, s, register.Item{Key: "k"}, "x")
	if took := time.Since(begun); took < time.Second {
		t.Errorf("it took %v, and the server has asked for twice a second", took)
	}
	busy.Store(1000)
	begun = time.Now()
	ctx := within(t, 500*time.Millisecond)
	if _, err := s.Read(ctx, "k"); err == nil || !strings.Contains(err.Error(), "too busy") || time.Since(begun) > 400*time.Millisecond {
		t.Errorf("read: %v, after %v", err, time.Since(begun))
	}
	busy.Store(0)
}

// A proxy or a server may cut each watch at once. It is not asked for another one all the time, and all else goes on. (It was asked as
// fast as it answered, and each cut made a request fail: no session could be renewed.)
func TestWatchesThatAreCutAtOnceHoldUpNothing(t *testing.T) {
	const ttl = 2 * time.Second
	t.Parallel()
	w := inFrontOf(t, newFake(t))
	w.brief.Store(true)
	a, b := joined(t, ttl, WithServer(w.server.URL)), joined(t, ttl, WithServer(w.server.URL))
	h := storecheck.Locked(t, a, "held")
	began, turns := time.Now(), 0
	for ; time.Since(began) < 4*ttl; turns++ {
		turn(t, a, "orders")
		turn(t, b, "orders")
		time.Sleep(20 * time.Millisecond)
	}
	if h.Err() != nil {
		t.Error(h.Err())
	}
	if n := w.vain.Load(); n > 300 {
		t.Errorf("%d watches were asked for within %v", n, time.Since(began))
	}
	if turns < 3 {
		t.Errorf("there were %d turns in all", turns)
	}
}

// A watch that the server ends when it was to is no cut. (It counts whole seconds, from when it was asked, and was expected to end later.)
func TestAWatchThatEndsInTimeIsNoCut(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	ends := make(chan time.Time, 100)
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if seconds, err := strconv.Atoi(r.URL.Query().Get("timeoutSeconds")); err == nil {
			ends <- time.Now().Add(time.Duration(seconds) * time.Second)
			time.Sleep(1200 * time.Millisecond)
		}
		f.serve(out, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	s := opened(t, WithServer(server.URL))
	known, err := s.known.Current()
	if err != nil {
		t.Fatal(err)
	}
	w := &watch{s: s, label: s.labelOf("t"), hear: func([]byte) {}}
	st, err := w.begin(within(t, 10*time.Second), known)
	if err != nil {
		t.Fatal(err)
	}
	defer st.end()
	if end := <-ends; st.until.After(end) {
		t.Errorf("the server ends it %v before it is expected to", st.until.Sub(end))
	}
}

// While one watch is open and none was cut, the server is the same, whatever becomes of the others.
func TestTheServerIsTheSameWhileOneWatchIsOpenAndNoneWasCut(t *testing.T) {
	var all streams
	if !all.unbroken().IsZero() {
		t.Error("none is open")
	}
	at := time.Now().Add(-time.Hour)
	first, second := &stream{begun: at}, &stream{begun: at.Add(time.Minute)}
	all.add(first)
	all.add(second)
	if is := all.unbroken(); is != first.begun {
		t.Error("two are open:", is)
	}
	all.remove(first, false)
	if is := all.unbroken(); is != second.begun {
		t.Error("the first one has ended as it was to:", is)
	}
	all.add(first)
	before := time.Now()
	all.remove(second, true)
	if is := all.unbroken(); is.Before(before) {
		t.Error("the second one was cut:", is)
	}
	all.remove(first, false)
	if !all.unbroken().IsZero() {
		t.Error("none is open any more")
	}
}
