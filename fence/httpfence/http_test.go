package httpfence_test

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/fence"
	"github.com/turnwise/turnwise/fence/httpfence"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// serve starts a server with a fence before the handler.
func serve(t *testing.T, f fence.Fence, handler http.HandlerFunc) (url string) {
	s := httptest.NewServer(httpfence.Require(f, httpfence.Line("orders"), handler))
	t.Cleanup(s.Close)
	return s.URL
}

// send returns the status of a request with a stamp.
func send(t *testing.T, url string, s fence.Stamp, body io.Reader) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, body)
	require.NoError(t, err)
	httpfence.Set(r.Header, "orders", s)
	return status(t, r)
}

func status(t *testing.T, r *http.Request) int {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func done(http.ResponseWriter, *http.Request) {}

func TestAStaleTokenIsRefused(t *testing.T) {
	var seen []fence.Stamp
	url := serve(t, new(fence.Local), func(_ http.ResponseWriter, r *http.Request) {
		s, ok := httpfence.Stamp(r.Context())
		assert.True(t, ok)
		seen = append(seen, s)
	})
	assert.Equal(t, 200, send(t, url, fence.Stamp{Token: 5}, nil))
	assert.Equal(t, 200, send(t, url, fence.Stamp{Token: 5}, nil), "the same holder again")
	assert.Equal(t, 412, send(t, url, fence.Stamp{Token: 4}, nil))
	assert.Equal(t, 200, send(t, url, fence.Stamp{Epoch: 1, Token: 1}, nil))
	assert.Equal(t, 412, send(t, url, fence.Stamp{Token: 6}, nil))
	assert.Equal(t, []fence.Stamp{{Token: 5}, {Token: 5}, {Epoch: 1, Token: 1}}, seen)
}

func TestARequestWithoutAUsableTokenIsRefused(t *testing.T) {
	url := serve(t, new(fence.Local), func(http.ResponseWriter, *http.Request) { t.Error("it was let through") })
	for header, want := range map[string]int{
		"":                                      428,
		"line=other&token=5":                    428,
		"line=orders/1&token=5":                 428,
		"5":                                     400,
		"line=orders":                           400,
		"line=orders&token=0":                   400,
		"line=orders&token=-1":                  400,
		"line=orders&token=9223372036854775808": 400,
		"line=orders&token=5&epoch=-1":          400,
		"line=orders&token=5&epoch=4294967296":  400,
		"line=orders&token=5&token=6":           400,
		"line=orders&token=5, line=orders&token=6": 400,
		"line=orders&token=5&epoch=":               400,
		"line=orders&tokens=5":                     400,
		"line=%zz&token=5":                         400,
		"line=a//b&token=5":                        400,
		"token=5":                                  400,
		"line=other&token=x, line=orders&token=5":  400,
	} {
		r, err := http.NewRequest(http.MethodPut, url, nil)
		require.NoError(t, err)
		if header != "" {
			r.Header.Set(httpfence.Header, header)
		}
		assert.Equal(t, want, status(t, r), "%q", header)
	}
}

func TestTheHeaderTakesAnyNameAndSeveralLines(t *testing.T) {
	for _, line := range []string{"orders/42", "a,b;c=d&e", "é ü/100%", `"x"`} {
		h := http.Header{}
		httpfence.Set(h, "another", fence.Stamp{Token: 9})
		httpfence.Set(h, line, fence.Stamp{Token: 6})
		httpfence.Set(h, line, fence.Stamp{Epoch: 2, Token: 7}) // replaces the first
		assert.Len(t, h[httpfence.Header], 2)
		var got fence.Stamp
		handler := httpfence.Require(new(fence.Local), httpfence.Line(line), http.HandlerFunc(
			func(_ http.ResponseWriter, r *http.Request) { got, _ = httpfence.Stamp(r.Context()) }))
		for _, header := range []http.Header{h, {httpfence.Header: {strings.Join(h[httpfence.Header], ",")}}} {
			r := httptest.NewRequest(http.MethodPut, "/", nil)
			r.Header, got = header, fence.Stamp{}
			handler.ServeHTTP(httptest.NewRecorder(), r)
			assert.Equal(t, fence.Stamp{Epoch: 2, Token: 7}, got, "%q: %q", line, header)
		}
	}
}

func TestTheLineIsTheServersToSay(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("PUT /orders/{id}", httpfence.Require(new(fence.Local), func(r *http.Request) string {
		return "orders/" + r.PathValue("id")
	}, http.HandlerFunc(done)))
	put := func(path, header string) int {
		r, w := httptest.NewRequest(http.MethodPut, path, nil), httptest.NewRecorder()
		r.Header.Set(httpfence.Header, header)
		mux.ServeHTTP(w, r)
		return w.Code
	}
	assert.Equal(t, 200, put("/orders/1", "line=orders/1&token=9"))
	assert.Equal(t, 200, put("/orders/2", "line=orders/2&token=1"))
	assert.Equal(t, 428, put("/orders/2", "line=orders/1&token=9"), "the token of another order")
	assert.Equal(t, 412, put("/orders/1", "line=orders/1&token=8"))
	assert.Equal(t, 428, put("/orders/%2e%2e", "line=orders/1&token=9"), "no line can have this name")
}

type passing func(ctx context.Context, line string, s fence.Stamp) error

func (p passing) Pass(ctx context.Context, line string, s fence.Stamp) error { return p(ctx, line, s) }

func TestNobodyIsLetThroughWhileTheKeeperIsAway(t *testing.T) {
	url := serve(t, passing(func(context.Context, string, fence.Stamp) error { return errors.New("password=secret") }),
		func(http.ResponseWriter, *http.Request) { t.Error("it was let through") })
	r, err := http.NewRequest(http.MethodPut, url, nil)
	require.NoError(t, err)
	httpfence.Set(r.Header, "orders", fence.Stamp{Token: 1})
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, 503, resp.StatusCode)
	assert.NotContains(t, string(text), "secret")
}

// overtaken sends a request that asks the fence for as long as ask takes, and meanwhile a newer one, which passes. Then it calls passed. The
// older request must be refused.
func overtaken(t *testing.T, ask func(ctx context.Context) error, passed func()) {
	t.Helper()
	local, asked := new(fence.Local), make(chan struct{})
	url := serve(t, passing(func(ctx context.Context, line string, s fence.Stamp) error {
		if s.Token == 1 {
			close(asked)
			return ask(ctx)
		}
		return local.Pass(ctx, line, s)
	}), func(_ http.ResponseWriter, r *http.Request) {
		if s, _ := httpfence.Stamp(r.Context()); s.Token == 1 {
			t.Error("it was let through")
		}
	})
	first := make(chan int, 1)
	go func() { first <- send(t, url, fence.Stamp{Token: 1}, nil) }()
	<-asked
	assert.Equal(t, 200, send(t, url, fence.Stamp{Token: 2}, nil))
	passed()
	assert.Equal(t, 412, <-first)
}

func TestOneWhoIsOvertakenWhileTheKeeperIsAskedIsRefused(t *testing.T) {
	overtaken(t, func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}, func() {})
}

// running is a handler that waits until it is told to go on, and says what it does.
type running struct {
	begun   chan fence.Stamp
	goOn    chan struct{}
	shutOut chan struct{}               // told when the context of one ends
	written atomic.Pointer[fence.Stamp] // of the last one that wrote
}

func newRunning() *running {
	return &running{begun: make(chan fence.Stamp), goOn: make(chan struct{}), shutOut: make(chan struct{}, 10)}
}

func (h *running) serve(_ http.ResponseWriter, r *http.Request) {
	s, _ := httpfence.Stamp(r.Context())
	context.AfterFunc(r.Context(), func() { h.shutOut <- struct{}{} })
	h.begun <- s
	<-h.goOn
	h.written.Store(&s)
}

// A handler that is slow, or paused, has ended before a newer one begins.
func TestANewerRequestWaitsForOlderOnesToEnd(t *testing.T) {
	h := newRunning()
	url := serve(t, new(fence.Local), h.serve)
	statuses := make(chan int, 3)
	for range 2 { // side by side
		go func() { statuses <- send(t, url, fence.Stamp{Token: 1}, nil) }()
		assert.Equal(t, fence.Stamp{Token: 1}, <-h.begun)
	}
	go func() { statuses <- send(t, url, fence.Stamp{Token: 2}, nil) }()
	<-h.shutOut
	<-h.shutOut
	select {
	case <-h.begun:
		t.Fatal("the newer one runs beside the older ones")
	case <-time.After(100 * time.Millisecond):
	}
	assert.Equal(t, 412, send(t, url, fence.Stamp{Token: 1}, nil), "no older one comes in any more")
	h.goOn <- struct{}{}
	h.goOn <- struct{}{}
	assert.Equal(t, fence.Stamp{Token: 2}, <-h.begun)
	h.goOn <- struct{}{}
	for range 3 {
		assert.Equal(t, 200, <-statuses)
	}
	assert.Equal(t, fence.Stamp{Token: 2}, *h.written.Load())
}

func TestOneWhoWaitsIsRefusedWhenAnEvenNewerComes(t *testing.T) {
	h := newRunning()
	url := serve(t, new(fence.Local), h.serve)
	first, second, third := make(chan int, 1), make(chan int, 1), make(chan int, 1)
	go func() { first <- send(t, url, fence.Stamp{Token: 1}, nil) }()
	<-h.begun
	go func() { second <- send(t, url, fence.Stamp{Token: 2}, nil) }()
	<-h.shutOut
	assert.Equal(t, 412, send(t, url, fence.Stamp{Token: 1}, nil))
	go func() { third <- send(t, url, fence.Stamp{Token: 3}, nil) }()
	assert.Equal(t, 412, <-second)
	close(h.goOn)
	assert.Equal(t, fence.Stamp{Token: 3}, <-h.begun)
	assert.Equal(t, 200, <-third)
	assert.Equal(t, 200, <-first)
}

func TestOneWhoWaitsGoesWithItsContext(t *testing.T) {
	h := newRunning()
	handler := httpfence.Require(new(fence.Local), httpfence.Line("orders"), http.HandlerFunc(h.serve))
	serve := func(ctx context.Context, s fence.Stamp) int {
		r, w := httptest.NewRequestWithContext(ctx, http.MethodPut, "/", nil), httptest.NewRecorder()
		httpfence.Set(r.Header, "orders", s)
		handler.ServeHTTP(w, r)
		return w.Code
	}
	ended := make(chan int)
	go func() { ended <- serve(t.Context(), fence.Stamp{Token: 1}) }()
	<-h.begun
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	assert.Equal(t, 503, serve(ctx, fence.Stamp{Token: 2}))
	close(h.goOn)
	assert.Equal(t, 200, <-ended)
	assert.Equal(t, 412, serve(t.Context(), fence.Stamp{Token: 1}), "the fence has let the second through, though it wrote nothing")
	go func() { ended <- serve(t.Context(), fence.Stamp{Token: 2}) }()
	assert.Equal(t, fence.Stamp{Token: 2}, <-h.begun)
	assert.Equal(t, 200, <-ended)
}

// A stranger may name the greatest token there is. As long as the fence has not let him through, he ends nobody's request.
func TestOneWhomTheFenceDoesNotLetThroughEndsNobody(t *testing.T) {
	h, local := newRunning(), new(fence.Local)
	var away atomic.Bool
	url := serve(t, passing(func(ctx context.Context, line string, s fence.Stamp) error {
		if away.Load() {
			return errors.New("the fence is away")
		}
		return local.Pass(ctx, line, s)
	}), h.serve)
	holder := make(chan int, 1)
	go func() { holder <- send(t, url, fence.Stamp{Token: 5}, nil) }()
	<-h.begun
	away.Store(true)
	assert.Equal(t, 503, send(t, url, fence.Stamp{Epoch: math.MaxUint32, Token: math.MaxInt64}, nil))
	away.Store(false)
	select {
	case <-h.shutOut:
		close(h.goOn)
		t.Fatal("it has ended the holder's request")
	case <-time.After(50 * time.Millisecond):
	}
	h.goOn <- struct{}{}
	assert.Equal(t, 200, <-holder)
	go func() { holder <- send(t, url, fence.Stamp{Token: 5}, nil) }()
	assert.Equal(t, fence.Stamp{Token: 5}, <-h.begun, "the holder goes on")
	h.goOn <- struct{}{}
	assert.Equal(t, 200, <-holder)
}

// One that asks the fence for a long time is nobody's reason to wait: when it is let through at last, it is too late.
func TestANewerRequestDoesNotWaitForAnOlderOneThatAsksTheFence(t *testing.T) {
	answer := make(chan struct{})
	overtaken(t, func(context.Context) error {
		<-answer
		return nil // it passed before the newer one did, but the answer was long on its way
	}, func() { close(answer) })
}

// However those of several tokens come, pass the fence and leave: two tokens are never inside at once, nor an older one after a newer.
func TestInACrowdNobodyRunsBesideOrAfterANewerOne(t *testing.T) {
	var inside [100]atomic.Int32
	var newest atomic.Int64
	handler := httpfence.Require(new(fence.Local), httpfence.Line("orders"), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s, _ := httpfence.Stamp(r.Context())
		inside[s.Token].Add(1)
		defer inside[s.Token].Add(-1)
		if was := newest.Swap(int64(s.Token)); was > int64(s.Token) {
			t.Errorf("%d runs after %d", s.Token, was)
		}
		for token := range inside {
			if coord.Token(token) != s.Token && inside[token].Load() != 0 {
				t.Errorf("%d runs beside %d", s.Token, token)
			}
		}
		select {
		case <-r.Context().Done():
		case <-time.After(time.Duration(rand.IntN(200)) * time.Microsecond):
		}
	}))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for token := range coord.Token(len(inside) - 1) {
				r, w := httptest.NewRequest(http.MethodPut, "/", nil), httptest.NewRecorder()
				httpfence.Set(r.Header, "orders", fence.Stamp{Token: token + 1})
				handler.ServeHTTP(w, r)
				assert.Contains(t, []int{200, 412}, w.Code)
			}
		})
	}
	all.Wait()
}

// The client is stopped while it sends its body: it would hold up everybody for as long as it stays stopped.
func TestAClientThatIsStoppedInItsBodyHoldsUpNobody(t *testing.T) {
	begun, took := make(chan struct{}, 2), make(chan error, 2)
	url := serve(t, new(fence.Local), func(_ http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		_, err := io.ReadAll(r.Body)
		took <- err
	})
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nTurnwise-Token: line=orders&token=1\r\n\r\nhalf")
	require.NoError(t, err)
	<-begun
	assert.Equal(t, 200, send(t, url, fence.Stamp{Token: 2}, strings.NewReader("whole")))
	assert.Error(t, <-took, "half a body was taken for a whole one")
	assert.NoError(t, <-took)
}

// Here the client takes no more of the answer.
func TestAClientThatIsStoppedInItsAnswerHoldsUpNobody(t *testing.T) {
	begun := make(chan struct{}, 2)
	url := serve(t, new(fence.Local), func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		if s, _ := httpfence.Stamp(r.Context()); s.Token == 1 {
			for err := error(nil); err == nil; {
				_, err = w.Write(make([]byte, 1<<20))
			}
		}
	})
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nTurnwise-Token: line=orders&token=1\r\n\r\n")
	require.NoError(t, err)
	<-begun
	assert.Equal(t, 200, send(t, url, fence.Stamp{Token: 2}, nil))
}

// A connection is used again after a request on it was shut out.
func TestAConnectionIsNoWorseForARequestThatWasShutOut(t *testing.T) {
	begun := make(chan struct{}, 1)
	url := serve(t, new(fence.Local), func(w http.ResponseWriter, r *http.Request) {
		switch s, _ := httpfence.Stamp(r.Context()); s.Token {
		case 1:
			begun <- struct{}{}
			<-r.Context().Done()
		case 3:
			time.Sleep(1500 * time.Millisecond) // longer than the time that was left to the first
		}
	})
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	put := func(token coord.Token) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, nil)
		require.NoError(t, err)
		httpfence.Set(r.Header, "orders", fence.Stamp{Token: token})
		resp, err := client.Do(r)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		return err
	}
	first := make(chan error, 1)
	go func() { first <- put(1) }()
	<-begun
	assert.Equal(t, 200, send(t, url, fence.Stamp{Token: 2}, nil))
	<-first
	assert.NoError(t, put(3))
}

func TestAPanicLeavesNobodyInside(t *testing.T) {
	handler := httpfence.Require(new(fence.Local), httpfence.Line("orders"), http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) {
			if s, _ := httpfence.Stamp(r.Context()); s.Token == 1 {
				panic(http.ErrAbortHandler)
			}
		}))
	for token := range coord.Token(2) {
		r, w := httptest.NewRequest(http.MethodPut, "/", nil), httptest.NewRecorder()
		httpfence.Set(r.Header, "orders", fence.Stamp{Token: 1 + token})
		func() {
			defer func() { _ = recover() }()
			handler.ServeHTTP(w, r)
		}()
		assert.Equal(t, 200, w.Code)
	}
}

func TestATransportSendsTheTokenOfTheHold(t *testing.T) {
	service := mem.New()
	defer service.Close()
	locks := service.Client()
	var seen fence.Stamp
	url := serve(t, new(fence.Local), func(_ http.ResponseWriter, r *http.Request) { seen, _ = httpfence.Stamp(r.Context()) })
	client := &http.Client{Transport: &httpfence.Transport{Client: locks, Line: "orders", Epoch: 3}}
	put := func(ctx context.Context) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader("body"))
		require.NoError(t, err)
		resp, err := client.Do(r)
		if err == nil {
			resp.Body.Close()
			assert.Empty(t, r.Header, "it is the caller's")
		}
		return resp, err
	}
	hold, err := mutex.New(locks, "orders").Lock(t.Context())
	require.NoError(t, err)
	resp, err := put(hold.Context())
	require.NoError(t, err)
	assert.Equal(t, 200, resp.StatusCode)
	assert.Equal(t, fence.Stamp{Epoch: 3, Token: hold.Token()}, seen)

	_, err = put(t.Context())
	assert.ErrorIs(t, err, coord.ErrLost, "the context is not the hold's")
	ctx := context.WithoutCancel(hold.Context())
	require.NoError(t, hold.Release())
	_, err = put(ctx)
	assert.ErrorIs(t, err, coord.ErrLost, "it has ended")
	assert.ErrorContains(t, err, `turnwise: send "orders": hold lost: the request's context descends from no live hold`)
}

func FuzzHeader(f *testing.F) {
	f.Add("line=orders&token=5")
	f.Add("line=orders&token=5&epoch=1,line=a%2Fb&token=7")
	f.Add("&&==;,%")
	f.Fuzz(func(t *testing.T, header string) {
		seen := new(fence.Local)
		assert.NoError(t, seen.Pass(t.Context(), "orders", fence.Stamp{Token: 5}))
		handler := httpfence.Require(seen, httpfence.Line("orders"), http.HandlerFunc(
			func(_ http.ResponseWriter, r *http.Request) {
				if s, ok := httpfence.Stamp(r.Context()); !ok || s.Compare(fence.Stamp{Token: 5}) < 0 {
					t.Errorf("%q lets %v through", header, s)
				}
			}))
		r, w := httptest.NewRequest(http.MethodPut, "/", nil), httptest.NewRecorder()
		r.Header[httpfence.Header] = []string{header}
		handler.ServeHTTP(w, r)
		if w.Code != 200 && w.Code != 400 && w.Code != 412 && w.Code != 428 {
			t.Errorf("%q: %d", header, w.Code)
		}
	})
}
