package prom_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/observe/prom"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/recipes/semaphore"
	"github.com/turnwise/turnwise/verify/bubble"
)

// measured returns an option that measures, and what stands in the metrics when everybody has come to rest: each series that is not
// zero, without the beginning that all names share. Of a histogram it has the count and the sum.
func measured(t *testing.T, opts ...prom.Option) (coord.Option, func() map[string]float64) {
	m := prom.New(opts...)
	reg := prometheus.NewPedanticRegistry()
	require.NoError(t, reg.Register(m))
	return coord.WithObserver(m.Observer()), func() map[string]float64 {
		t.Helper()
		synctest.Wait()
		families, err := reg.Gather()
		require.NoError(t, err)
		all := make(map[string]float64)
		for _, f := range families {
			for _, s := range f.GetMetric() {
				name := strings.TrimPrefix(f.GetName(), "turnwise_client_")
				for _, l := range s.GetLabel() {
					if l.GetValue() != "" {
						name += " " + l.GetValue()
					}
				}
				if h := s.GetHistogram(); h != nil {
					all[name+" count"], all[name+" sum"] = float64(h.GetSampleCount()), h.GetSampleSum()
				} else {
					all[name] = s.GetGauge().GetValue() + s.GetCounter().GetValue()
				}
			}
		}
		maps.DeleteFunc(all, func(_ string, v float64) bool { return v == 0 })
		return all
	}
}

func TestAWaitAndAHoldAreMeasured(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		opt, now := measured(t)
		busy, err := mutex.New(s.Client(), "a").Lock(t.Context())
		require.NoError(t, err)
		next := mutex.New(s.Client(opt), "a").LockChan(t.Context())
		time.Sleep(5 * time.Second)
		assert.Equal(t, map[string]float64{"waiting mutex": 1, "sessions_opened_total": 1}, now())
		require.NoError(t, busy.Release())
		h := (<-next).Hold
		got := now()
		assert.Equal(t, 1.0, got["holding mutex"])
		assert.Zero(t, got["waiting mutex"])
		assert.InDelta(t, 5, got["waited_seconds mutex sum"], 1)
		time.Sleep(time.Minute)
		require.NoError(t, h.Release())
		got = now()
		assert.Zero(t, got["holding mutex"])
		assert.Equal(t, 1.0, got["held_seconds mutex count"])
		assert.InDelta(t, 60, got["held_seconds mutex sum"], 1)
	})
}

func TestALossHasItsReason(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		opt, now := measured(t)
		c := s.Client(opt)
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
		got := now()
		assert.Equal(t, 1.0, got["lost_total overdue mutex"])
		assert.Equal(t, 1.0, got["lost_total closed mutex"])
		assert.Equal(t, 1.0, got["lost_total session mutex"])
		assert.Equal(t, 1.0, got["lost_total removed mutex"])
		assert.Equal(t, 2.0, got["sessions_lost_total"])
		assert.Equal(t, 4.0, got["held_seconds mutex count"])
		assert.Zero(t, got["holding mutex"])
	})
}

func TestEachWhoGivesUpHasAReason(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		opt, now := measured(t)
		busy, err := mutex.New(s.Client(), "a").Lock(t.Context())
		require.NoError(t, err)
		c := s.Client(opt)
		_, err = mutex.New(c, "a", mutex.MaxWait(time.Second)).Lock(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		ctx, cancel := context.WithCancel(t.Context())
		next := mutex.New(c, "a").LockChan(ctx)
		time.Sleep(time.Second)
		cancel()
		require.ErrorIs(t, (<-next).Err, context.Canceled)
		got := now()
		assert.Equal(t, 1.0, got["gave_up_total timeout mutex"])
		assert.Equal(t, 1.0, got["gave_up_total canceled mutex"])
		assert.Zero(t, got["waiting mutex"])
		require.NoError(t, busy.Release())
	})
}

func TestWhoLosesItsPlaceWaitsOnce(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		opt, now := measured(t)
		busy, err := mutex.New(s.Client(), "a").Lock(t.Context())
		require.NoError(t, err)
		c := s.Client(opt)
		next := mutex.New(c, "a").LockChan(t.Context())
		for range 3 {
			time.Sleep(time.Second)
			s.Expire(c)
		}
		time.Sleep(time.Second)
		assert.Equal(t, 1.0, now()["waiting mutex"])
		require.NoError(t, busy.Release())
		require.NoError(t, (<-next).Hold.Release())
		assert.Zero(t, now()["waiting mutex"])
	})
}

func TestALeaderIsSeen(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		m := prom.New()
		leads := func() float64 { // it is there also if it is zero
			synctest.Wait()
			reg := prometheus.NewRegistry()
			reg.MustRegister(m)
			families, err := reg.Gather()
			require.NoError(t, err)
			for _, f := range families {
				if f.GetName() == "turnwise_client_leader" {
					return f.GetMetric()[0].GetGauge().GetValue()
				}
			}
			return -1
		}
		first, err := election.New(s.Client(), "a").Campaign(t.Context(), nil)
		require.NoError(t, err)
		assert.Equal(t, -1.0, leads(), "it does not stand")
		elected := make(chan *election.Term, 1)
		go func() {
			term, err := election.New(s.Client(coord.WithObserver(m.Observer())), "a").Campaign(t.Context(), nil)
			assert.NoError(t, err)
			elected <- term
		}()
		time.Sleep(time.Second)
		assert.Equal(t, 0.0, leads())
		require.NoError(t, first.Release())
		term := <-elected
		assert.Equal(t, 1.0, leads())
		require.NoError(t, term.Release())
		assert.Equal(t, 0.0, leads())
	})
}

func TestEachRecipeIsKnown(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		opt, now := measured(t)
		c := s.Client(opt)
		rw := rwlock.New(c, "rw")
		r, err := rw.RLock(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1.0, now()["holding reader"])
		require.NoError(t, r.Release())
		w, err := rw.Lock(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1.0, now()["holding writer"])
		require.NoError(t, rw.Downgrade(t.Context(), w))
		got := now()
		assert.Zero(t, got["holding writer"])
		assert.Equal(t, 1.0, got["holding reader"], "a writer that has become a reader")
		require.NoError(t, w.Release())
		p, err := semaphore.New(c, "pool", 3).Acquire(t.Context(), 2)
		require.NoError(t, err)
		got = now()
		assert.Equal(t, 1.0, got["holding semaphore"])
		assert.Zero(t, got["holding reader"])
		require.NoError(t, p.Release())
	})
}

func TestCallersWhoShareAPlaceHaveATurnEach(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		opt, now := measured(t)
		m := mutex.New(s.Client(opt), "a", mutex.Together(time.Minute))
		busy, err := mutex.New(s.Client(), "a").Lock(t.Context())
		require.NoError(t, err)
		first := m.LockChan(t.Context())
		synctest.Wait()
		second := m.LockChan(t.Context())
		synctest.Wait()
		assert.Equal(t, 1.0, now()["waiting mutex"], "in the service's line they are one")
		require.NoError(t, busy.Release())
		for _, c := range []<-chan coord.Result{first, second} {
			h := bubble.Enters(t, c)
			assert.Equal(t, 1.0, now()["holding mutex"])
			require.NoError(t, h.Release())
		}
		got := now()
		assert.Zero(t, got["holding mutex"]+got["waiting mutex"])
		assert.Equal(t, 2.0, got["held_seconds mutex count"])
		time.Sleep(time.Minute)
	})
}

func TestAServiceThatIsAwayIsSeenForAsLongAsSomebodyWantsIt(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		opt, now := measured(t)
		c := s.Client(opt)
		heal := s.Partition(c)
		next := mutex.New(c, "a").LockChan(t.Context())
		time.Sleep(5 * time.Minute)
		got := now()
		assert.InDelta(t, 300, got["unreachable_seconds"], 60)
		assert.Greater(t, got["open_failures_total"], 1.0)
		heal()
		require.NoError(t, (<-next).Hold.Release())
		assert.Zero(t, now()["unreachable_seconds"])

		busy, err := mutex.New(s.Client(), "a").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		next = mutex.New(c, "a").LockChan(ctx)
		time.Sleep(time.Second)
		heal = s.Partition(c)
		require.ErrorIs(t, (<-next).Err, coord.ErrUnavailable)
		time.Sleep(5 * time.Minute)
		got = now()
		assert.Zero(t, got["unreachable_seconds"], "nobody wants it")
		assert.Equal(t, 1.0, got["gave_up_total unreachable mutex"])
		heal()
		require.NoError(t, busy.Release())
	})
}

// A program may have a million lines, with names that strangers choose.
func TestLinesAreFew(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		series := func(opts ...prom.Option) int {
			opt, now := measured(t, opts...)
			c := s.Client(opt)
			for i := range 300 {
				h, err := mutex.New(c, fmt.Sprintf("shop/%d", i)).Lock(t.Context())
				require.NoError(t, err)
				require.NoError(t, h.Release())
			}
			time.Sleep(time.Second) // so much in one instant is told together
			n := 0
			for name := range now() {
				if strings.HasPrefix(name, "held_seconds") && strings.HasSuffix(name, " count") {
					n++
				}
			}
			return n
		}
		assert.Equal(t, 1, series())
		assert.Equal(t, 1, series(prom.Lines(func(line string) string { before, _, _ := strings.Cut(line, "/"); return before })))
		assert.Equal(t, 201, series(prom.Lines(func(line string) string { return line })))
		assert.Equal(t, 1, series(prom.Lines(func(string) string { return "\xff" })), "no text at all")
		assert.Equal(t, 1, series(prom.Lines(nil), nil))
	})
}

// What the documentation names is there, and nothing else.
func TestTheDocumentationNamesWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("prom.go")
	require.NoError(t, err)
	var named []string
	for _, m := range regexp.MustCompile(`(?m)^//	([a-z_]+)[{ ].*(?:histogram|gauge|counter) `).FindAllStringSubmatch(string(text), -1) {
		named = append(named, "turnwise_client_"+m[1])
	}
	descs := make(chan *prometheus.Desc, 100)
	prom.New().Describe(descs)
	close(descs)
	var there []string
	for d := range descs {
		there = append(there, regexp.MustCompile(`fqName: "([^"]*)"`).FindStringSubmatch(d.String())[1])
	}
	assert.ElementsMatch(t, named, there)
	problems, err := testutil.CollectAndLint(prom.New())
	require.NoError(t, err)
	assert.Empty(t, problems)
}

func ExampleNew() {
	metrics := prom.New(prom.Lines(func(line string) string {
		kind, _, _ := strings.Cut(line, "/") // orders/4711 and a million others
		return kind
	}))
	prometheus.MustRegister(metrics)
	http.Handle("/metrics", promhttp.Handler())

	client := mem.New().Client(coord.WithObserver(metrics.Observer()))
	defer client.Close()
}

// What a turn costs without an observer, and with this one.
func BenchmarkTurn(b *testing.B) {
	for name, opts := range map[string][]coord.Option{"bare": nil, "measured": {coord.WithObserver(prom.New().Observer())}} {
		b.Run(name, func(b *testing.B) {
			m := mutex.New(mem.New().Client(opts...), "a")
			for b.Loop() {
				h, err := m.Lock(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				if err := h.Release(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// One Observer does for several clients, and on two services a line may have the same name, and a hold the same token.
func TestHoldsOfTwoServicesAreNotMistakenForEachOther(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		opt, now := measured(t)
		other := mem.New()
		defer other.Close()
		first, err := mutex.New(s.Client(opt), "a").Lock(t.Context())
		require.NoError(t, err)
		second, err := mutex.New(other.Client(opt), "a").Lock(t.Context())
		require.NoError(t, err)
		require.Equal(t, first.Token(), second.Token(), "otherwise this shows nothing")
		require.NoError(t, second.Release())
		require.Equal(t, 1.0, now()["holding mutex"], "%v", now())
		require.NoError(t, first.Release())
		require.Zero(t, now()["holding mutex"])
	})
}
