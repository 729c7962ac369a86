package trace_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/coord/trace"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
	"github.com/turnwise/turnwise/recipes/semaphore"
	"github.com/turnwise/turnwise/verify/bubble"
)

// audit returns the verdict on these traces.
func audit(t *testing.T, texts ...string) *trace.Verdict {
	t.Helper()
	a := trace.NewAudit(0)
	for i, text := range texts {
		require.NoError(t, a.Read(fmt.Sprint(i), strings.NewReader(text)))
	}
	return a.Verdict()
}

// page is what several Observers write to, a line at a time.
type page struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *page) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

func crowd(t *testing.T, client func() *coord.Client) {
	var all sync.WaitGroup
	ctx := t.Context()
	for i := range 8 {
		c := client()
		all.Go(func() {
			for range 25 {
				assert.NoError(t, mutex.New(c, "mutex").Do(ctx, func(context.Context, *coord.Hold) error { return nil }))
				assert.NoError(t, semaphore.New(c, "few", 3).Do(ctx, int64(1+i%2), func(context.Context, *coord.Hold) error { return nil }))
				assert.NoError(t, semaphore.New(c, "many", 20).Do(ctx, int64(1+i), func(context.Context, *coord.Hold) error { return nil }))
				rw := rwlock.New(c, "rw")
				h, err := rw.Lock(ctx)
				if assert.NoError(t, err) {
					assert.NoError(t, rw.Downgrade(ctx, h))
					assert.NoError(t, h.Release())
				}
				assert.NoError(t, rw.RDo(ctx, func(context.Context, *coord.Hold) error { return nil }))
			}
			assert.NoError(t, c.Close())
		})
	}
	all.Wait()
}

func TestARealRunHasNothingWrong(t *testing.T) {
	s := mem.New()
	defer s.Close()
	var p page
	crowd(t, func() *coord.Client { return s.Client(coord.WithObserver(trace.To(&p, "here"))) })
	v := audit(t, p.String())
	assert.Empty(t, v.Wrong)
	assert.Equal(t, "1,000 turns in 4 lines of 1 process: nothing wrong", v.String())
	assert.NotContains(t, p.String(), "\n\n", "each line is a record")
}

// Each turn of a place that callers share is judged as any other.
func TestTurnsThatAreTakenTogetherAreJudged(t *testing.T) {
	s := mem.New()
	defer s.Close()
	var p page
	var all sync.WaitGroup
	var clients []*coord.Client
	for range 2 {
		c := s.Client(coord.WithObserver(trace.To(&p, "here")))
		clients = append(clients, c)
		for range 8 {
			all.Go(func() {
				for range 20 {
					do := mutex.New(c, "mutex", mutex.Together(10*time.Millisecond)).Do
					assert.NoError(t, do(t.Context(), func(context.Context, *coord.Hold) error { return nil }))
					do = rwlock.New(c, "rw", rwlock.Together(10*time.Millisecond)).RDo
					assert.NoError(t, do(t.Context(), func(context.Context, *coord.Hold) error { return nil }))
				}
			})
		}
	}
	all.Wait()
	for _, c := range clients {
		assert.NoError(t, c.Close())
	}
	v := audit(t, p.String())
	assert.Empty(t, v.Wrong)
	assert.Equal(t, "640 turns in 2 lines of 1 process: nothing wrong", v.String())
}

// Two services each let in their own clients, and are taken for one.
func TestTwoServicesThatAreTakenForOneAreFound(t *testing.T) {
	var p page
	var all sync.WaitGroup
	for range 2 {
		s := mem.New()
		defer s.Close()
		all.Go(func() { crowd(t, func() *coord.Client { return s.Client(coord.WithObserver(trace.To(&p, "here"))) }) })
	}
	all.Wait()
	found := map[trace.Fault]int{}
	for _, f := range audit(t, p.String()).Wrong {
		found[f.What]++
	}
	assert.NotZero(t, found[trace.GivenTwice])
	assert.NotZero(t, found[trace.TwoAtOnce])
}

// In a test with a time of its own, clients that come at different times have one clock.
func TestItIsOfUseUnderSynctest(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var p page
		for range 3 {
			c := s.Client(coord.WithObserver(trace.To(&p, "")))
			h, err := mutex.New(c, "line").Lock(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Minute)
			require.NoError(t, h.Release())
			require.NoError(t, c.Close())
		}
		v := audit(t, p.String())
		assert.Equal(t, "3 turns in 1 line of 1 process: nothing wrong", v.String())
	})
}

func TestAHoldThatIsLostEndsInTheTrace(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var p page
		c := s.Client(coord.WithObserver(trace.To(&p, "")))
		h, err := mutex.New(c, "line").Lock(t.Context())
		require.NoError(t, err)
		heal := s.Partition(c)
		next, err := mutex.New(s.Client(coord.WithObserver(trace.To(&p, ""))), "line").Lock(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, h.Release(), coord.ErrLost)
		require.NoError(t, next.Release())
		heal()
		time.Sleep(time.Minute)
		v := audit(t, p.String())
		assert.Equal(t, "2 turns in 1 line of 1 process: nothing wrong", v.String())
		assert.Contains(t, p.String(), `"event":"lost"`)
	})
}

// A waiter whose session ends, and who stands in line again, is told so between his two places.
func TestAWaiterThatJoinsAgainSaysSo(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		var p page
		h, err := mutex.New(s.Client(), "line").Lock(t.Context())
		require.NoError(t, err)
		waits := s.Client(coord.WithObserver(trace.To(&p, "")))
		granted := mutex.New(waits, "line").LockChan(t.Context())
		time.Sleep(time.Second)
		heal := s.Partition(waits)
		time.Sleep(time.Minute)
		heal()
		time.Sleep(time.Minute)
		require.NoError(t, h.Release())
		r := <-granted
		require.NoError(t, r.Err)
		require.NoError(t, r.Hold.Release())
		synctest.Wait()
		assert.Equal(t, 2, strings.Count(p.String(), `"event":"waiting"`))
		assert.Equal(t, 1, strings.Count(p.String(), `"event":"rejoining"`))
	})
}

// failing fails at some writes, in the middle of a line or before it.
type failing struct {
	page
	writes int
}

func (f *failing) Write(b []byte) (int, error) {
	f.writes++
	switch f.writes % 10 {
	case 3, 4:
		return 0, errors.New("the disk is full")
	case 7:
		n, _ := f.page.Write(b[:len(b)/2])
		return n, errors.New("the disk is full")
	}
	return f.page.Write(b)
}

func TestAWriterThatFailsLeavesGapsThatAreTold(t *testing.T) {
	s := mem.New()
	defer s.Close()
	var f failing
	c := s.Client(coord.WithObserver(trace.To(&f, "")))
	for range 100 {
		assert.NoError(t, mutex.New(c, "mutex").Do(t.Context(), func(context.Context, *coord.Hold) error { return nil }))
	}
	require.NoError(t, c.Close())
	v := audit(t, f.String())
	assert.Empty(t, v.Wrong)
	assert.Contains(t, v.String(), " records missing, of 1 client")
	assert.Contains(t, v.String(), " lines that cannot be read, the first at ")
	assert.Greater(t, v.Turns, 50)
}

func TestAWriterThatStandsStillHoldsUpNobody(t *testing.T) {
	s := mem.New()
	defer s.Close()
	r, w, err := os.Pipe() // nobody reads
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	c := s.Client(coord.WithObserver(trace.To(w, "")))
	began := time.Now()
	for range 1000 {
		require.NoError(t, mutex.New(c, "mutex").Do(t.Context(), func(context.Context, *coord.Hold) error { return nil }))
	}
	require.NoError(t, c.Close())
	assert.Less(t, time.Since(began), time.Minute)
}

func TestAnObserverOfOnesOwnIsToldBesideIt(t *testing.T) {
	s := mem.New()
	defer s.Close()
	var p page
	mine := 0
	c := s.Client(coord.WithObserver(&coord.Observer{Granted: func(time.Time, coord.Node, time.Duration) { mine++ }}),
		coord.WithObserver(trace.To(&p, "")))
	assert.NoError(t, mutex.New(c, "mutex").Do(t.Context(), func(context.Context, *coord.Hold) error { return nil }))
	require.NoError(t, c.Close())
	assert.Equal(t, 1, mine)
	assert.Equal(t, 1, audit(t, p.String()).Turns)
}

func Example() {
	var file bytes.Buffer // in a program, a file that is opened with os.O_APPEND

	service := mem.New() // or zk.Connect, etcd.Connect, with WithClient
	defer service.Close()
	client := service.Client(coord.WithObserver(trace.To(&file, "prod")))
	h, _ := mutex.New(client, "orders").Lock(context.Background())
	h.Release()
	client.Close()

	audit := trace.NewAudit(trace.DefaultSkew)
	audit.Read("trace.jsonl", &file)
	fmt.Println(audit.Verdict())
	// Output: 1 turn in 1 line of 1 process: nothing wrong
}
