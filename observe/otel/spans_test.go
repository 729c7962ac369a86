package otel_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/observe/otel"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/verify/bubble"
)

// ended returns the spans of that name that have ended when everybody has come to rest.
func (w watched) ended(name string) (spans []trace.ReadOnlySpan) {
	w.Helper()
	synctest.Wait()
	for _, s := range w.spans.Ended() {
		if s.Name() == name {
			spans = append(spans, s)
		}
	}
	return spans
}

// the returns the one span of that name.
func (w watched) the(name string) trace.ReadOnlySpan {
	w.Helper()
	spans := w.ended(name)
	require.Len(w, spans, 1, name)
	return spans[0]
}

// open is how many spans have begun and not ended.
func (w watched) open() int {
	synctest.Wait()
	return len(w.spans.Started()) - len(w.spans.Ended())
}

func events(s trace.ReadOnlySpan) (names []string) {
	for _, e := range s.Events() {
		names = append(names, e.Name)
	}
	return names
}

func said(s trace.ReadOnlySpan) map[string]any { return asMap(s.Attributes()) }

func asMap(of []attribute.KeyValue) map[string]any {
	all := make(map[string]any)
	for _, a := range of {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

// links asserts that a hold's span leads to its acquire's.
func links(t *testing.T, hold, acquire trace.ReadOnlySpan) {
	t.Helper()
	require.Len(t, hold.Links(), 1)
	assert.True(t, hold.Links()[0].SpanContext.Equal(acquire.SpanContext()))
}

func TestAWaitAndAHoldAreSpans(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		c := s.Client(w.option())
		began := time.Now()
		rw := rwlock.New(c, "shop/a")
		first, err := rwlock.New(s.Client(), "shop/a").RLock(t.Context())
		require.NoError(t, err)
		second, err := rwlock.New(s.Client(), "shop/a").RLock(t.Context())
		require.NoError(t, err)
		next := make(chan *coord.Hold)
		go func() {
			h, err := rw.Lock(t.Context())
			assert.NoError(t, err)
			next <- h
		}()
		time.Sleep(time.Second)
		require.NoError(t, first.Release())
		time.Sleep(time.Second)
		require.NoError(t, second.Release())
		h := <-next
		granted := time.Now()
		assert.Empty(t, w.ended("hold writer"))
		time.Sleep(time.Minute)
		released := time.Now()
		require.NoError(t, h.Release())

		acquire, hold := w.the("acquire writer"), w.the("hold writer")
		about := map[string]any{"turnwise.line": "shop/a", "turnwise.recipe": "writer", "turnwise.kind": h.Node().Kind, "turnwise.token": int64(h.Token())}
		assert.Equal(t, about, said(acquire))
		assert.Equal(t, about, said(hold))
		assert.Equal(t, began, acquire.StartTime())
		assert.Equal(t, granted, acquire.EndTime())
		assert.Equal(t, granted, hold.StartTime())
		assert.Equal(t, released, hold.EndTime())
		assert.Equal(t, codes.Unset, acquire.Status().Code)
		assert.Equal(t, codes.Unset, hold.Status().Code)
		links(t, hold, acquire)
		require.Contains(t, [][]string{{"waiting", "woken", "granted"}, {"waiting", "woken", "woken", "granted"}}, events(acquire))
		assert.Equal(t, began, acquire.Events()[0].Time)
		// On this service it sees the nearest.
		assert.Equal(t, map[string]any{"turnwise.ahead": int64(1)}, asMap(acquire.Events()[0].Attributes))
		last := acquire.Events()[len(acquire.Events())-1]
		assert.Equal(t, granted, last.Time)
		assert.Zero(t, w.open())
	})
}

func TestWhoNeedNotWaitIsGrantedAtOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		h, err := mutex.New(s.Client(w.option()), "a").Lock(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"granted"}, events(w.the("acquire mutex")))
		assert.Equal(t, 1, w.open())
		require.NoError(t, h.Release())
		links(t, w.the("hold mutex"), w.the("acquire mutex"))
	})
}

func TestALostHoldIsASpanThatFailsAndEndsWhenTheLineWasSurelyHeld(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		c := s.Client(w.option())
		h, err := mutex.New(c, "a").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		s.Partition(c)
		synctest.Wait() // for an answer that was under way
		until := h.Deadline()
		<-h.Context().Done()
		time.Sleep(time.Hour)
		hold := w.the("hold mutex")
		assert.Equal(t, codes.Error, hold.Status().Code)
		assert.Equal(t, h.Err().Error(), hold.Status().Description)
		assert.Equal(t, until, hold.EndTime())
		assert.Equal(t, "session", said(hold)["error.type"])
		links(t, hold, w.the("acquire mutex"))
		assert.Error(t, h.Release())
		assert.Len(t, w.ended("hold mutex"), 1)
		time.Sleep(time.Minute)
	})
}

func TestAHoldWhoseNodeIsRemovedIsASpanThatFails(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		h, err := mutex.New(s.Client(w.option()), "a").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		s.Remove(h.Node())
		<-h.Context().Done()
		hold := w.the("hold mutex")
		assert.Equal(t, codes.Error, hold.Status().Code)
		assert.Equal(t, "removed", said(hold)["error.type"])
		assert.Equal(t, time.Now(), hold.EndTime())
	})
}

// A hook before ours is slow, so we are told late.
func TestSpansHaveTheTimesOfWhatHappened(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		slow := func(time.Time, coord.Node, time.Duration) { time.Sleep(time.Hour) }
		c := s.Client(coord.WithObserver(&coord.Observer{Granted: slow, Released: slow}), w.option())
		began := time.Now()
		h, err := mutex.New(c, "a").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, h.Release())
		time.Sleep(3 * time.Hour)
		acquire, hold := w.the("acquire mutex"), w.the("hold mutex")
		for _, at := range []time.Time{acquire.StartTime(), acquire.EndTime(), acquire.Events()[0].Time, hold.StartTime()} {
			assert.Equal(t, began, at)
		}
		assert.Equal(t, began.Add(time.Second), hold.EndTime())
	})
}

// The session was last seen alive before the hold began.
func TestNoSpanEndsBeforeItBegins(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		o := w.telemetry.Observer()
		at, me := time.Now(), coord.Node{Line: "a", Kind: "lock", ID: "1", Token: 256}
		o.Granted(at, me, 0)
		o.Lost(at.Add(-time.Second), me, coord.ErrLost)
		assert.Equal(t, at, w.the("hold mutex").EndTime())
		assert.Zero(t, w.now()["hold.duration sum mutex"])
	})
}

func TestWhoGivesUpIsASpanThatFails(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		busy, err := mutex.New(s.Client(), "a").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		began := time.Now()
		_, err = mutex.New(s.Client(w.option()), "a", mutex.MaxWait(time.Minute)).Lock(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		acquire := w.the("acquire mutex")
		assert.Equal(t, codes.Error, acquire.Status().Code)
		assert.Equal(t, coord.Printable(err.Error()), acquire.Status().Description)
		assert.Equal(t, "timeout", said(acquire)["error.type"])
		assert.Equal(t, []string{"waiting"}, events(acquire))
		assert.Equal(t, began, acquire.StartTime())
		assert.Equal(t, began.Add(time.Minute), acquire.EndTime())
		assert.Empty(t, w.ended("hold mutex"))
		require.NoError(t, busy.Release())
	})
}

// Each has one span, with what has happened at all its places.
func TestWhoLosesItsPlaceWaitsOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		busy, err := mutex.New(s.Client(), "a").Lock(t.Context())
		require.NoError(t, err)
		began := time.Now()
		c := s.Client(w.option())
		turns := make(chan *coord.Hold, 3)
		for range 3 {
			go func() {
				h, err := mutex.New(c, "a").Lock(t.Context())
				assert.NoError(t, err)
				turns <- h
			}()
		}
		for range 2 {
			time.Sleep(time.Second)
			s.Expire(c)
		}
		time.Sleep(time.Second)
		assert.Equal(t, 3.0, w.now()["wait.active mutex"])
		require.NoError(t, busy.Release())
		for range 3 {
			require.NoError(t, (<-turns).Release())
		}
		assert.Zero(t, w.now()["wait.active mutex"])
		places := make(map[any]int)
		for i, acquire := range w.ended("acquire mutex") {
			assert.Equal(t, began, acquire.StartTime())
			assert.Equal(t, []string{"waiting", "rejoining", "waiting", "rejoining", "waiting", "woken", "granted"}, events(acquire)[:7])
			first, second := asMap(acquire.Events()[1].Attributes)["turnwise.token"], asMap(acquire.Events()[3].Attributes)["turnwise.token"]
			assert.Less(t, first, second)
			assert.Less(t, second, said(acquire)["turnwise.token"])
			for _, token := range []any{first, second, said(acquire)["turnwise.token"]} {
				places[token]++
			}
			require.Less(t, i, 3)
		}
		assert.Len(t, places, 9, "none is another one's")
	})
}

// It joins twice without a wait, and has to wait at its third place.
func TestWhoLosesAPlaceAtOnceKeepsWhatWasBefore(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		o := w.telemetry.Observer()
		mine := o.Acquiring(t.Context())
		place := func(i int) coord.Node {
			return coord.Node{Line: "a", Kind: "lock", ID: fmt.Sprint(i), Token: coord.Token(i)}
		}
		for i := range 2 {
			mine.Rejoining(time.Now(), place(i))
			o.Rejoining(time.Now(), place(i))
		}
		mine.Waiting(time.Now(), place(2), 1)
		o.Waiting(time.Now(), place(2), 1)
		mine.GaveUp(time.Now(), place(2), 0, context.Canceled)
		o.GaveUp(time.Now(), place(2), 0, context.Canceled)
		assert.Equal(t, []string{"rejoining", "rejoining", "waiting"}, events(w.the("acquire mutex")))
	})
}

func TestCallersWhoShareAPlaceHaveATurnEach(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		m := mutex.New(s.Client(w.option()), "a", mutex.Together(time.Minute))
		busy, err := mutex.New(s.Client(), "a").Lock(t.Context())
		require.NoError(t, err)
		began := time.Now()
		first := m.LockChan(t.Context())
		time.Sleep(time.Second)
		second := m.LockChan(t.Context())
		time.Sleep(time.Second)
		assert.Equal(t, 1.0, w.now()["wait.active mutex"], "in the service's line they are one")
		require.NoError(t, busy.Release())
		var tokens []any
		for _, c := range []<-chan coord.Result{first, second} {
			h := bubble.Enters(t, c)
			tokens = append(tokens, int64(h.Token()))
			assert.Equal(t, 1.0, w.now()["hold.active mutex"])
			time.Sleep(time.Second)
			require.NoError(t, h.Release())
		}
		got := w.now()
		assert.Zero(t, got["hold.active mutex"]+got["wait.active mutex"])
		assert.Equal(t, 2.0, got["hold.duration count mutex"])

		acquires, holds := w.ended("acquire mutex"), w.ended("hold mutex")
		require.Len(t, acquires, 2)
		require.Len(t, holds, 2)
		for i := range 2 {
			assert.Equal(t, tokens[i], said(acquires[i])["turnwise.token"])
			assert.Equal(t, tokens[i], said(holds[i])["turnwise.token"])
			links(t, holds[i], acquires[i])
			assert.Equal(t, began.Add(time.Duration(i)*time.Second), acquires[i].StartTime())
			assert.Equal(t, began.Add(time.Duration(i+2)*time.Second), acquires[i].EndTime())
			assert.Equal(t, began.Add(time.Duration(i+3)*time.Second), holds[i].EndTime())
		}
		assert.Equal(t, []string{"waiting", "woken", "granted"}, events(acquires[0]))
		assert.Equal(t, []string{"granted"}, events(acquires[1]))
		time.Sleep(time.Minute)
	})
}

// The caller who had the place made has given up: what happened before the other one came is not the other one's.
func TestNoEventIsBeforeItsSpan(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		m := mutex.New(s.Client(w.option()), "a", mutex.Together(time.Minute))
		busy, err := mutex.New(s.Client(), "a").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		first := m.LockChan(ctx)
		time.Sleep(time.Second)
		second := m.LockChan(t.Context())
		synctest.Wait()
		cancel()
		require.ErrorIs(t, (<-first).Err, context.Canceled)
		require.NoError(t, busy.Release())
		require.NoError(t, (<-second).Hold.Release())
		assert.Equal(t, []string{"woken", "granted"}, events(w.the("acquire mutex")))
		time.Sleep(time.Minute)
	})
}

func TestAWriterThatBecomesAReaderIsOneSpan(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		rw := rwlock.New(s.Client(w.option()), "rw")
		h, err := rw.Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, rw.Downgrade(t.Context(), h))
		require.NoError(t, h.Release())
		hold := w.the("hold writer")
		assert.Equal(t, "reader", said(hold)["turnwise.recipe"])
		require.Equal(t, []string{"amended"}, events(hold))
		assert.Equal(t, time.Second, hold.Events()[0].Time.Sub(hold.StartTime()))
	})
}

func TestOfANestedHoldThereIsNoSpan(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		c := s.Client(w.option())
		outer, err := mutex.New(c, "a").Lock(t.Context())
		require.NoError(t, err)
		inner, err := mutex.New(c, "a", mutex.Reentrant()).Lock(outer.Context())
		require.NoError(t, err)
		require.NoError(t, inner.Release())
		require.NoError(t, outer.Release())
		assert.Zero(t, w.open())
		assert.Len(t, w.spans.Started(), 2)
	})
}

func TestWhatIsHeldWhenTheClientIsClosedEnds(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		c := s.Client(w.option())
		h, err := mutex.New(c, "a").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, c.Close())
		hold := w.the("hold mutex")
		assert.Equal(t, codes.Error, hold.Status().Code)
		assert.Equal(t, "closed", said(hold)["error.type"])
		assert.Equal(t, time.Now(), hold.EndTime())
		got := w.now()
		assert.Zero(t, got["hold.active mutex"])
		assert.Equal(t, 1.0, got["hold.duration count mutex"])
		assert.Equal(t, 1.0, got["hold.lost closed mutex"])
		assert.Error(t, h.Release())
		assert.Len(t, w.ended("hold mutex"), 1)
		time.Sleep(time.Minute)
	})
}

func TestAWaitHasALinkToTheHoldersTrace(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		tracer := trace.NewTracerProvider().Tracer("test")
		c := s.Client(w.option(), coord.WithTraces(otel.Traceparent))
		for _, holders := range []*coord.Client{s.Client(coord.WithTraces(otel.Traceparent)), c} {
			ctx, span := tracer.Start(t.Context(), "nightly report")
			h, err := mutex.New(holders, "a").Lock(ctx)
			require.NoError(t, err)
			next := mutex.New(c, "a").LockChan(t.Context())
			bubble.Waits(t, next)
			require.NoError(t, h.Release())
			require.NoError(t, bubble.Enters(t, next).Release())
			spans := w.ended("acquire mutex")
			links := spans[len(spans)-1].Links()
			require.Len(t, links, 1)
			assert.True(t, links[0].SpanContext.Equal(span.SpanContext().WithRemote(true)))
			assert.Equal(t, int64(h.Token()), asMap(links[0].Attributes)["turnwise.token"])
		}
		forged := s.Client(coord.WithTraces(func(context.Context) string { return "00-00-00-\u2603" }))
		h, err := mutex.New(forged, "a").Lock(t.Context())
		require.NoError(t, err)
		next := mutex.New(c, "a").LockChan(t.Context())
		bubble.Waits(t, next)
		require.NoError(t, h.Release())
		require.NoError(t, bubble.Enters(t, next).Release())
		spans := w.ended("acquire mutex")
		assert.Empty(t, spans[len(spans)-1].Links(), "it is no trace")
	})
}

// Names come from strangers; what is no text at all would keep an exporter from sending anything.
func TestWhatComesFromElsewhereIsText(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		o := w.telemetry.Observer()
		me := coord.Node{Line: "a\xff\n", Kind: "\xff", ID: "1", Token: 256}
		o.Granted(time.Now(), me, 0)
		o.Lost(time.Now(), me, assert.AnError)
		about := said(w.the("hold other"))
		assert.Equal(t, coord.Printable("a\xff\n"), about["turnwise.line"])
		assert.Equal(t, coord.Printable("\xff"), about["turnwise.kind"])
		assert.NotContains(t, about["turnwise.line"], "\xff")
	})
}

func TestWhoIsWokenForDaysHasNotAllOfItInItsSpan(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		o := w.telemetry.Observer()
		me := coord.Node{Line: "a", Kind: "lock", ID: "1", Token: 256}
		o.Waiting(time.Now(), me, 1)
		for range 1000 {
			o.Woken(time.Now(), me)
		}
		o.Granted(time.Now(), me, 0)
		names := events(w.the("acquire mutex"))
		assert.Len(t, names, 101)
		assert.Equal(t, "granted", names[100])
	})
}

// Both are in the trace of whoever called, each time in his own.
func TestTheSpanOfTheCallerIsTheParent(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		callers := trace.NewTracerProvider().Tracer("callers")
		c := s.Client(w.option())
		m := mutex.New(c, "a", mutex.Together(time.Minute))
		busy, err := mutex.New(s.Client(), "a").Lock(t.Context())
		require.NoError(t, err)
		var parents []oteltrace.SpanContext
		var next []<-chan coord.Result
		for range 3 {
			ctx, span := callers.Start(t.Context(), "request")
			parents = append(parents, span.SpanContext())
			next = append(next, m.LockChan(ctx))
			synctest.Wait()
			span.End()
		}
		require.NoError(t, busy.Release())
		for _, n := range next {
			require.NoError(t, bubble.Enters(t, n).Release())
		}
		acquires, holds := w.ended("acquire mutex"), w.ended("hold mutex")
		require.Len(t, acquires, 3)
		require.Len(t, holds, 3)
		for i, parent := range parents {
			assert.True(t, acquires[i].Parent().Equal(parent))
			assert.True(t, holds[i].Parent().Equal(parent))
			links(t, holds[i], acquires[i])
		}
		time.Sleep(time.Minute)

		ctx, span := callers.Start(t.Context(), "request")
		h, err := mutex.New(c, "b").Lock(t.Context())
		require.NoError(t, err)
		_, err = mutex.New(c, "b", mutex.MaxWait(time.Second)).Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, h.Release())
		acquires, holds = w.ended("acquire mutex")[3:], w.ended("hold mutex")[3:]
		assert.False(t, acquires[0].Parent().IsValid(), "it had no span")
		assert.False(t, holds[0].Parent().IsValid())
		assert.True(t, acquires[1].Parent().Equal(span.SpanContext()), "which gave up")
		assert.Zero(t, w.open())
	})
}

// A context may have a whole request in it.
func TestNothingIsKeptOfACallThatIsOver(t *testing.T) {
	s := mem.New()
	defer s.Close()
	c := s.Client(watch(t).option())
	forgotten := make(chan struct{})
	func() {
		request := make([]byte, 1<<20)
		runtime.AddCleanup(&request[0], func(forgotten chan struct{}) { close(forgotten) }, forgotten)
		ctx, _ := trace.NewTracerProvider().Tracer("callers").Start(t.Context(), "request")
		h, err := mutex.New(c, "a").Lock(context.WithValue(ctx, watched{}, request))
		require.NoError(t, err)
		require.NoError(t, h.Release())
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		select {
		case <-forgotten:
			return true
		default:
			return false
		}
	}, time.Minute, 10*time.Millisecond)
}

// An exporter of metrics can lead from a long wait to its span.
func TestAMeasurementKnowsItsSpan(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		h, err := mutex.New(s.Client(w.option()), "a").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Release())
		of := map[string]trace.ReadOnlySpan{"wait.duration": w.the("acquire mutex"), "hold.duration": w.the("hold mutex")}
		for _, m := range w.metrics() {
			data, is := m.Data.(metricdata.Histogram[float64])
			if !is {
				continue
			}
			span := of[m.Name[len("turnwise.client."):]].SpanContext().SpanID()
			require.Len(t, data.DataPoints[0].Exemplars, 1)
			assert.Equal(t, span[:], data.DataPoints[0].Exemplars[0].SpanID)
		}
	})
}
