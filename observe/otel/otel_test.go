package otel_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/observe/otel"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/recipes/semaphore"
	"github.com/turnwise/turnwise/verify/bubble"
)

// watched is what a test knows of its clients.
type watched struct {
	*testing.T
	telemetry *otel.Telemetry
	reader    *metric.ManualReader
	spans     *tracetest.SpanRecorder
}

func watch(t *testing.T, opts ...otel.Option) watched {
	w := watched{T: t, reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	w.telemetry = otel.New(append(opts,
		otel.MeterProvider(metric.NewMeterProvider(metric.WithReader(w.reader))),
		otel.TracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(w.spans))))...)
	return w
}

func (w watched) option() coord.Option { return coord.WithObserver(w.telemetry.Observer()) }

// metrics returns all there are when everybody has come to rest.
func (w watched) metrics() []metricdata.Metrics {
	w.Helper()
	synctest.Wait()
	var all metricdata.ResourceMetrics
	require.NoError(w, w.reader.Collect(context.Background(), &all))
	require.Len(w, all.ScopeMetrics, 1)
	return all.ScopeMetrics[0].Metrics
}

// now returns each series that is not zero, without the beginning that all names share. Of a histogram it has the count and the sum.
func (w watched) now() map[string]float64 {
	w.Helper()
	all := make(map[string]float64)
	note := func(name string, of attribute.Set, v float64) {
		for _, a := range of.ToSlice() {
			name += " " + a.Value.String()
		}
		if v != 0 {
			all[name] = v
		}
	}
	for _, m := range w.metrics() {
		name := strings.TrimPrefix(m.Name, "turnwise.client.")
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				note(name+" count", p.Attributes, float64(p.Count))
				note(name+" sum", p.Attributes, p.Sum)
			}
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				note(name, p.Attributes, float64(p.Value))
			}
		case metricdata.Gauge[float64]:
			for _, p := range data.DataPoints {
				note(name, p.Attributes, p.Value)
			}
		default:
			w.Fatalf("%s is a %T", name, data)
		}
	}
	return all
}

func TestAWaitAndAHoldAreMeasured(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		busy, err := mutex.New(s.Client(), "a").Lock(t.Context())
		require.NoError(t, err)
		next := mutex.New(s.Client(w.option()), "a").LockChan(t.Context())
		time.Sleep(5 * time.Second)
		assert.Equal(t, map[string]float64{"wait.active mutex": 1, "session.opened": 1}, w.now())
		require.NoError(t, busy.Release())
		h := (<-next).Hold
		got := w.now()
		assert.Equal(t, 1.0, got["hold.active mutex"])
		assert.Zero(t, got["wait.active mutex"])
		assert.InDelta(t, 5, got["wait.duration sum mutex"], 1)
		time.Sleep(time.Minute)
		require.NoError(t, h.Release())
		got = w.now()
		assert.Zero(t, got["hold.active mutex"])
		assert.Equal(t, 1.0, got["hold.duration count mutex"])
		assert.InDelta(t, 60, got["hold.duration sum mutex"], 1)
	})
}

func TestALossHasItsReason(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		c := s.Client(w.option())
		h, err := mutex.New(c, "a").Lock(t.Context())
		require.NoError(t, err)
		s.Expire(c)
		<-h.Context().Done()
		h, err = mutex.New(c, "a").Lock(t.Context())
		require.NoError(t, err)
		s.Remove(h.Node())
		<-h.Context().Done()
		h, err = mutex.New(c, "a", mutex.MaxHold(time.Minute)).Lock(t.Context())
		require.NoError(t, err)
		<-h.Context().Done()
		h, err = mutex.New(c, "a").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.ErrorIs(t, h.Release(), coord.ErrClosed)
		time.Sleep(time.Minute) // until its node has gone
		got := w.now()
		assert.Equal(t, 1.0, got["hold.lost overdue mutex"])
		assert.Equal(t, 1.0, got["hold.lost closed mutex"])
		assert.Equal(t, 1.0, got["hold.lost session mutex"])
		assert.Equal(t, 1.0, got["hold.lost removed mutex"])
		assert.Equal(t, 2.0, got["session.lost"])
		assert.Equal(t, 4.0, got["hold.duration count mutex"])
		assert.Zero(t, got["hold.active mutex"])
	})
}

func TestEachWhoGivesUpHasAReason(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		busy, err := mutex.New(s.Client(), "a").Lock(t.Context())
		require.NoError(t, err)
		c := s.Client(w.option())
		_, err = mutex.New(c, "a", mutex.MaxWait(time.Second)).Lock(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		ctx, cancel := context.WithCancel(t.Context())
		next := mutex.New(c, "a").LockChan(ctx)
		time.Sleep(time.Second)
		cancel()
		require.ErrorIs(t, (<-next).Err, context.Canceled)
		h, err := mutex.New(c, "other").Lock(t.Context())
		require.NoError(t, err)
		next = mutex.New(c, "a").LockChan(t.Context())
		time.Sleep(time.Second)
		go c.Shutdown(t.Context())
		require.ErrorIs(t, (<-next).Err, coord.ErrClosed)
		require.NoError(t, h.Release())
		got := w.now()
		assert.Equal(t, 1.0, got["wait.abandoned timeout mutex"])
		assert.Equal(t, 1.0, got["wait.abandoned canceled mutex"])
		assert.Equal(t, 1.0, got["wait.abandoned _OTHER mutex"])
		assert.Zero(t, got["wait.active mutex"])
		require.NoError(t, busy.Release())
	})
}

func TestALeaderIsSeen(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		leads := func() int64 { // it is there also if it is zero
			for _, m := range w.metrics() {
				if m.Name == "turnwise.client.leader.active" {
					return m.Data.(metricdata.Sum[int64]).DataPoints[0].Value
				}
			}
			return -1
		}
		first, err := election.New(s.Client(), "a").Campaign(t.Context(), nil)
		require.NoError(t, err)
		c := s.Client(w.option())
		h, err := mutex.New(c, "other").Lock(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, -1, leads(), "it does not stand")
		elected := make(chan *election.Term, 1)
		go func() {
			term, err := election.New(c, "a").Campaign(t.Context(), nil)
			assert.NoError(t, err)
			elected <- term
		}()
		time.Sleep(time.Second)
		assert.EqualValues(t, 0, leads())
		require.NoError(t, first.Release())
		term := <-elected
		assert.EqualValues(t, 1, leads())
		require.NoError(t, term.Release())
		assert.EqualValues(t, 0, leads())
		require.NoError(t, h.Release())
	})
}

func TestEachRecipeIsKnown(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		c := s.Client(w.option())
		rw := rwlock.New(c, "rw")
		r, err := rw.RLock(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1.0, w.now()["hold.active reader"])
		require.NoError(t, r.Release())
		h, err := rw.Lock(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1.0, w.now()["hold.active writer"])
		require.NoError(t, rw.Downgrade(t.Context(), h))
		got := w.now()
		assert.Zero(t, got["hold.active writer"])
		assert.Equal(t, 1.0, got["hold.active reader"], "a writer that has become a reader")
		require.NoError(t, h.Release())
		p, err := semaphore.New(c, "pool", 3).Acquire(t.Context(), 2)
		require.NoError(t, err)
		got = w.now()
		assert.Equal(t, 1.0, got["hold.active semaphore"])
		assert.Zero(t, got["hold.active reader"])
		require.NoError(t, p.Release())
	})
}

func TestAServiceThatIsAwayIsSeenForAsLongAsSomebodyWantsIt(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		c := s.Client(w.option())
		heal := s.Partition(c)
		next := mutex.New(c, "a").LockChan(t.Context())
		time.Sleep(5 * time.Minute)
		got := w.now()
		assert.InDelta(t, 300, got["session.unreachable"], 60)
		assert.Greater(t, got["session.open_failures"], 1.0)
		heal()
		require.NoError(t, (<-next).Hold.Release())
		assert.Zero(t, w.now()["session.unreachable"])

		busy, err := mutex.New(s.Client(), "a").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		next = mutex.New(c, "a").LockChan(ctx)
		time.Sleep(time.Second)
		heal = s.Partition(c)
		require.ErrorIs(t, (<-next).Err, coord.ErrUnavailable)
		time.Sleep(5 * time.Minute)
		got = w.now()
		assert.Zero(t, got["session.unreachable"], "nobody wants it")
		assert.Equal(t, 1.0, got["wait.abandoned unreachable mutex"])
		heal()
		require.NoError(t, busy.Release())
	})
}

// A program may have a million lines, with names that strangers choose.
func TestLinesAreFew(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		series := func(opts ...otel.Option) int {
			w := watch(t, opts...)
			c := s.Client(w.option())
			for i := range 300 {
				h, err := mutex.New(c, fmt.Sprintf("shop/%d", i)).Lock(t.Context())
				require.NoError(t, err)
				require.NoError(t, h.Release())
			}
			time.Sleep(time.Second) // so much in one instant is told together
			n := 0
			for name := range w.now() {
				if strings.HasPrefix(name, "hold.duration count") {
					n++
				}
			}
			return n
		}
		assert.Equal(t, 1, series())
		assert.Equal(t, 1, series(otel.Lines(func(line string) string { before, _, _ := strings.Cut(line, "/"); return before })))
		assert.Equal(t, 201, series(otel.Lines(func(line string) string { return line })))
		assert.Equal(t, 1, series(otel.Lines(func(string) string { return "\xff" })), "no text at all")
		assert.Equal(t, 1, series(otel.Lines(nil), otel.MeterProvider(nil), otel.TracerProvider(nil), nil))
	})
}

// What the documentation names is there with that unit, and nothing else.
func TestTheDocumentationNamesWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("otel.go")
	require.NoError(t, err)
	var named []string
	for _, m := range regexp.MustCompile(`(?m)^//	([a-z_.]+)(?:\{\S+\})? +(s|\{[a-z]+\}) +(histogram|gauge|counter|updowncounter) `).FindAllStringSubmatch(string(text), -1) {
		named = append(named, "turnwise.client."+m[1]+" "+m[2]+" "+m[3])
	}
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		everything(t, s, w)
		var there []string
		for _, m := range w.metrics() {
			kind := "gauge"
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				kind = "histogram"
			case metricdata.Sum[int64]:
				kind = "updowncounter"
				if data.IsMonotonic {
					kind = "counter"
				}
			}
			there = append(there, m.Name+" "+m.Unit+" "+kind)
			assert.NotEmpty(t, m.Description, m.Name)
		}
		assert.ElementsMatch(t, named, there)
	})
}

// everything does something of all that is measured.
func everything(t *testing.T, s *mem.Service, w watched) {
	c := s.Client(w.option())
	heal := s.Partition(c)
	elected := make(chan *election.Term, 1)
	go func() {
		term, err := election.New(c, "seat").Campaign(t.Context(), nil)
		assert.NoError(t, err)
		elected <- term
	}()
	time.Sleep(time.Minute)
	heal()
	term := <-elected
	_, err := election.New(c, "seat", election.MaxWait(time.Second)).Campaign(t.Context(), nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	s.Expire(c)
	<-term.Context().Done()
}

// One Observer does for several clients, and on two services a line may have the same name, and a hold the same token.
func TestHoldsOfTwoServicesAreNotMistakenForEachOther(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := watch(t)
		opt := w.option()
		other := mem.New()
		defer other.Close()
		first, err := mutex.New(s.Client(opt), "a").Lock(t.Context())
		require.NoError(t, err)
		second, err := mutex.New(other.Client(opt), "a").Lock(t.Context())
		require.NoError(t, err)
		require.Equal(t, first.Token(), second.Token(), "otherwise this shows nothing")
		require.NoError(t, second.Release())
		require.Equal(t, 1.0, w.now()["hold.active mutex"])
		require.NoError(t, first.Release())
		require.Zero(t, w.now()["hold.active mutex"])
	})
}
