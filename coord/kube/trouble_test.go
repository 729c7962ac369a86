package kube

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// front is a way to the API server on which watches may be in trouble and nothing else.
type front struct {
	server  *httptest.Server
	stalled atomic.Bool // what is watched does not arrive
	refused atomic.Bool // watches are refused, and those that there are end
	brief   atomic.Bool // watches say something, and are cut at once
	vain    atomic.Int64
	writes  atomic.Int64
}

// slow is an answer whose events do not arrive while the front is stalled.
type slow struct {
	http.ResponseWriter
	f   *front
	ctx context.Context
}

func (s slow) Write(b []byte) (int, error) {
	for s.f.stalled.Load() && s.ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	if s.f.refused.Load() {
		return 0, context.Canceled
	}
	return s.ResponseWriter.Write(b)
}

func (s slow) Flush() { s.ResponseWriter.(http.Flusher).Flush() }

func inFrontOf(t testing.TB, f *fake) *front {
	w := &front{}
	w.server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.writes.Add(1)
		}
		if r.URL.Query().Has("watch") {
			switch {
			case w.brief.Load():
				w.vain.Add(1)
				answer(out, 200, map[string]any{"type": "BOOKMARK", "object": map[string]any{"kind": "Lease",
					"metadata": map[string]any{"resourceVersion": r.URL.Query().Get("resourceVersion")}}})
				return
			case w.refused.Load():
				w.vain.Add(1)
				refuse(out, 503, "ServiceUnavailable", "not now", nil)
				return
			}
			f.serve(slow{out, w, r.Context()}, r)
			return
		}
		f.serve(out, r)
	}))
	t.Cleanup(w.server.Close)
	t.Cleanup(w.server.CloseClientConnections)
	return w
}

func (w *front) client(t testing.TB, ttl time.Duration) *coord.Client {
	s := opened(t, WithServer(w.server.URL), WithLongestTTL(ttl))
	c := coord.NewClient(register.New(s, register.WithTTL(ttl), register.WithLongestTTL(ttl)))
	t.Cleanup(func() { c.Close() })
	return c
}

// The requests of somebody who waits go through all the time, and the store answers. Only its watch is in trouble. It keeps its place.
func TestWhoWaitsKeepsItsPlaceThoughItsWatchIsInTrouble(t *testing.T) {
	const ttl = 2 * time.Second
	for name, trouble := range map[string]func(*front){
		"stalled": func(w *front) { w.stalled.Store(true) },
		"refused": func(w *front) { w.refused.Store(true); w.server.CloseClientConnections() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			fronts := []*front{inFrontOf(t, f), inFrontOf(t, f), inFrontOf(t, f)}
			holder, waiter, other := fronts[0].client(t, ttl), fronts[1].client(t, ttl), fronts[2].client(t, ttl)
			h, err := mutex.New(holder, "a").Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer h.Release()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			mutex.New(waiter, "a").LockChan(ctx)
			time.Sleep(2 * ttl)
			was, err := holder.Line(t.Context(), "a")
			if err != nil || len(was) != 2 {
				t.Fatal(was, err)
			}
			trouble(fronts[1])
			time.Sleep(ttl)
			mutex.New(other, "a").LockChan(ctx)
			time.Sleep(4 * ttl)
			is, err := holder.Line(t.Context(), "a")
			if err != nil || len(is) < 2 || is[1].ID != was[1].ID {
				t.Errorf("who was second stands no more where it stood: %v, then %v, %v", was, is, err)
			}
			fronts[1].stalled.Store(false)
			fronts[1].refused.Store(false)
		})
	}
}

// docs/kubernetes.md: a quota must have room for a lease for each line and each session.
func TestWhoWaitsNeedsALeaseForItsSessionAndNoOther(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	for i := range 5 {
		m := mutex.New(inFrontOf(t, f).client(t, register.MinTTL), "a")
		if granted := m.LockChan(t.Context()); i == 0 {
			<-granted
		}
		time.Sleep(3 * register.MinTTL)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range f.all {
		if strings.HasPrefix(name, "turnwise-suspect-") {
			t.Errorf("a session that lives is under suspicion: %s", name)
		}
	}
}
