package kube

import (
	"net/http"
	"net/http/httptest"
	"slices"
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
