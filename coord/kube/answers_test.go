package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// proxied stands before a fake. While strange is set it answers what that says to requests of these methods, and "" lets them through.
type proxied struct {
	server      *httptest.Server
	strange     atomic.Pointer[map[string]string]
	unknown     atomic.Pointer[string] // the next who asks for this lease is told that there is nothing like leases
	unavailable atomic.Bool
}

func proxy(t *testing.T, f *fake) (p *proxied, opts []Option) {
	t.Helper()
	p = &proxied{}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answers := p.strange.Load(); answers != nil && (*answers)[r.Method] != "" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte((*answers)[r.Method]))
			return
		}
		if p.unavailable.Load() {
			http.Error(w, "there is no server", http.StatusServiceUnavailable)
			return
		}
		name := p.unknown.Load()
		if name != nil && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/leases/"+*name) && p.unknown.CompareAndSwap(name, nil) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}`))
			return
		}
		f.serve(w, r)
	}))
	t.Cleanup(func() { p.server.CloseClientConnections(); p.server.Close() })
	return p, []Option{WithServer(p.server.URL)}
}

// A webhook edits each lease that is written, to the rules of the house. A lease without our labels is in no list, so its session would
// be taken for over.
func TestAnAPIServerThatStoresSomethingElseIsRefused(t *testing.T) {
	for name, house := range map[string]struct {
		edits   func(m map[string]any)
		refused bool
	}{
		"no label of ours":      {func(m map[string]any) { delete(m, "labels") }, true},
		"no label for a kind":   {func(m map[string]any) { delete(m["labels"].(map[string]any), kindLabel) }, true},
		"an annotation is long": {func(m map[string]any) { m["annotations"].(map[string]any)[valueNote] = "…" }, true},
		"a label of its own":    {func(m map[string]any) { m["labels"].(map[string]any)["team"] = "a" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var l map[string]any
				if r.Method == http.MethodPut && json.NewDecoder(r.Body).Decode(&l) == nil {
					house.edits(meta(l))
					text, _ := json.Marshal(l)
					r.Body = io.NopCloser(bytes.NewReader(text))
				}
				f.serve(w, r)
			}))
			defer front.Close()
			defer front.CloseClientConnections()
			s, err := Open(within(t, 10*time.Second), "default", WithServer(front.URL))
			if err == nil {
				defer s.Close()
			}
			if refused := errors.Is(err, driver.ErrDenied) && strings.Contains(err.Error(), "webhook"); refused != house.refused || !refused && err != nil {
				t.Errorf("it says %v", err)
			}
		})
	}
}

// What stands before the API server answers in its place that all is well, as some do while that is away. So a holder's renewals do not
// arrive, and the next one is let in.
func TestAProxyThatAnswersForTheServerKeepsNoHold(t *testing.T) {
	f := newFake(t)
	p, through := proxy(t, f)
	quick := []Option{WithRoot(freshRoot()), WithTTL(2 * time.Second), WithLongestTTL(2 * time.Second), WithLogger(logger(t))}
	n := &neighbours{}
	h := n.lock(t, connected(t, append(through, quick...)), "orders")
	other := connected(t, append(f.options(t), quick...))
	well := `{"status":"ok"}`
	p.strange.Store(&map[string]string{http.MethodGet: well, http.MethodPost: well, http.MethodPut: well, http.MethodDelete: well})
	next := n.lock(t, other, "orders")
	if h.Err() == nil {
		t.Errorf("two hold, with tokens %d and %d", h.Token(), next.Token())
	}
	p.strange.Store(nil)
	_ = next.Release()
}

func TestWhatIsNoAnswerToTheRequestIsNotBelieved(t *testing.T) {
	f := newFake(t)
	p, through := proxy(t, f)
	s := opened(t, append(through, WithRoot(freshRoot()))...)
	it := put(t, s, register.Item{Key: "k"}, "one")
	for _, strange := range []string{`{}`, `{"status":"ok"}`, `null`, `{"kind":"Status","status":"Success"}`, `{"kind":"Lease","metadata":{"name":"another","uid":"u","resourceVersion":"1"}}`,
		`{"kind":"ConfigMapList","metadata":{"resourceVersion":"1"}}`} {
		p.strange.Store(&map[string]string{http.MethodGet: strange})
		if got, err := s.Read(within(t, 5*time.Second), "k"); err == nil {
			t.Errorf("%s: it reads %+v", strange, got)
		}
		if err := s.List(within(t, 5*time.Second), "", func(register.Item) bool { return true }); err == nil {
			t.Errorf("%s: it is a list of nothing", strange)
		}
		p.strange.Store(&map[string]string{http.MethodPut: strange, http.MethodPost: strange})
		if _, err := s.Swap(within(t, 5*time.Second), register.Swap{Key: "k", Old: it.Version, Next: register.NewVersion(), Value: []byte("two")}); err == nil {
			t.Errorf("%s: it was swapped", strange)
		}
		if strange != `{"kind":"Status","status":"Success"}` {
			p.strange.Store(&map[string]string{http.MethodDelete: strange})
			if _, err := s.Swap(within(t, 5*time.Second), register.Swap{Key: "k", Old: it.Version}); err == nil {
				t.Errorf("%s: it was emptied", strange)
			}
		}
		p.strange.Store(nil)
		if got := read(t, s, "k"); string(got.Value) != "one" {
			t.Errorf("%s: it reads %q", strange, got.Value)
		}
	}
}

// Whoever is told that it may pass takes it for an outage: nobody enters after that before he has made sure of his session.
func TestWhatAnswersInTheServersPlaceMayPass(t *testing.T) {
	f := newFake(t)
	away := atomic.Pointer[http.HandlerFunc]{}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer := away.Load(); answer != nil {
			(*answer)(w, r)
			return
		}
		f.serve(w, r)
	}))
	defer front.Close()
	defer front.CloseClientConnections()
	s := opened(t, WithServer(front.URL), WithRoot(freshRoot()))
	for name, answer := range map[string]http.HandlerFunc{
		"a web page": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.Write([]byte("<html>"))
		},
		"no such page":  http.NotFound,
		"a redirection": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/sorry", http.StatusFound) },
	} {
		away.Store(&answer)
		if _, err := s.Read(within(t, 5*time.Second), "k"); err == nil || driver.IsLasting(err) {
			t.Errorf("%s: %v", name, err)
		}
		away.Store(nil)
		if _, err := s.Read(within(t, 5*time.Second), "k"); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
}

// An API server that starts, or another one behind the same proxy, may not know of leases, and says 404 to whatever it is asked
// (kubernetes #104342).
func TestWhoKnowsNoLeasesSaysNothingOfOne(t *testing.T) {
	t.Run("of the session of a holder", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		h := storecheck.Locked(t, joined(t, 10*time.Second, f.options(t)...), "orders")
		way, opts := proxy(t, f)
		waiter := joined(t, 10*time.Second, opts...)
		turn(t, waiter, "warm")
		session, _, _ := strings.Cut(h.Node().ID, "-")
		name := opened(t, f.options(t)...).nameOf("session/" + session)
		way.unknown.Store(&name)
		if _, err := mutex.New(waiter, "orders").Lock(within(t, 4*time.Second)); err == nil || h.Err() != nil {
			t.Errorf("somebody is let in (error %v) beside a holder (error %v)", err, h.Err())
		}
		if way.unknown.Load() != nil {
			t.Error("nobody has asked for the session")
		}
	})
	t.Run("of the epoch", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		s := opened(t, f.options(t)...)
		c := joined(t, 4*time.Second, f.options(t)...)
		turn(t, c, "warm")
		before := storecheck.Locked(t, c, "orders")
		if err := before.Release(); err != nil {
			t.Fatal(err)
		}
		// What a sweep does when a line has been empty for long.
		epoch := read(t, s, "epoch")
		_, err := s.Swap(within(t, 10*time.Second), register.Swap{Key: "epoch", Old: epoch.Version, Next: register.NewVersion(), Value: []byte{1, 9}})
		if err != nil {
			t.Fatal(err)
		}
		storecheck.Remove(t, s, read(t, s, "line/orders"))
		way, opts := proxy(t, f)
		other := joined(t, 4*time.Second, opts...)
		turn(t, other, "warm")
		name := s.nameOf("epoch")
		way.unknown.Store(&name)
		after := storecheck.Locked(t, other, "orders")
		if after.Token() <= before.Token() {
			t.Errorf("the token %v comes after %v", after.Token(), before.Token())
		}
		if way.unknown.Load() != nil {
			t.Error("nobody has asked for the epoch")
		}
	})
}
