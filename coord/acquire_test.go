package coord_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/verify/bubble"
)

// exclusive is the smallest recipe there is.
var exclusive = coord.Rule{WaitFor: func(_ coord.Node, ahead []coord.Node) []coord.Node { return ahead }}

func TestMaxWaitBoundsTheWait(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		holder, c := s.Client(), s.Client()
		h, err := holder.Acquire(t.Context(), "line", "lock", nil, exclusive)
		require.NoError(t, err)
		for limit, took := range map[time.Duration]time.Duration{3 * time.Second: 3 * time.Second, 0: 0, -time.Second: 0} {
			began := time.Now()
			_, err = c.Acquire(t.Context(), "line", "lock", nil, exclusive, coord.MaxWait(limit))
			assert.ErrorIs(t, err, context.DeadlineExceeded, "%v", limit)
			assert.ErrorIs(t, err, coord.ErrBusy, "%v", limit)
			assert.NotErrorIs(t, err, coord.ErrUnavailable, "%v", limit)
			assert.Equal(t, took, time.Since(began), "%v", limit)
			assert.Len(t, lineOf(t, s, "line"), 1, "%v: the node is still in line", limit)
		}
		_, err = c.TryAcquire(t.Context(), "line", "lock", nil, exclusive, coord.MaxWait(0))
		assert.ErrorIs(t, err, coord.ErrBusy)
		assert.NotErrorIs(t, err, context.DeadlineExceeded, "a try is over when it has looked, whatever time it has")
		require.NoError(t, h.Release())
	})
}

func TestWithoutTimeToWaitOneTakesWhatIsFree(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		h, err := s.Client().Acquire(t.Context(), "line", "lock", nil, exclusive, coord.MaxWait(-1))
		require.NoError(t, err)
		assert.True(t, lineOf(t, s, "line")[0].Holds)
		require.NoError(t, h.Release())

		c := s.Client()
		defer s.Partition(c)()
		_, err = c.Acquire(t.Context(), "line", "lock", nil, exclusive, coord.MaxWait(0))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, coord.ErrUnavailable)
		assert.NotErrorIs(t, err, coord.ErrBusy)

		c = s.Client()
		c.Close()
		_, err = c.Acquire(t.Context(), "line", "lock", nil, exclusive, coord.MaxWait(0))
		assert.ErrorIs(t, err, coord.ErrClosed)
		assert.NotErrorIs(t, err, context.DeadlineExceeded, "more time would not help")
	})
}

// The caller may catch the panic; an observer that reads the error must not end the process after all.
func TestWhenOnWaitPanicsNothingStaysAndObserversHearWhy(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		h, err := s.Client().Acquire(t.Context(), "line", "lock", nil, exclusive)
		require.NoError(t, err)
		why := make(chan error, 1)
		c := s.Client(coord.WithObserver(&coord.Observer{GaveUp: func(_ time.Time, _ coord.Node, _ time.Duration, err error) { why <- err }}))
		assert.PanicsWithValue(t, "oops", func() {
			_, _ = c.Acquire(t.Context(), "line", "lock", nil, exclusive, coord.OnWait(func() { panic("oops") }))
		})
		assert.Len(t, lineOf(t, s, "line"), 1)
		assert.ErrorIs(t, <-why, coord.ErrInvalid)
		require.NoError(t, h.Release())
	})
}

// Drivers ask a rule on goroutines of their own, where a panic would end the process.
func TestARuleThatPanicsFailsItsTry(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		holder := enter(t, s.Client())
		rule := coord.Rule{WaitFor: func(me coord.Node, ahead []coord.Node) []coord.Node { return ahead[len(ahead)+1:] }}
		_, err := s.Client().TryAcquire(t.Context(), "line", "lock", nil, rule)
		assert.ErrorIs(t, err, coord.ErrInvalid)
		assert.ErrorContains(t, err, "out of range")
		assert.Len(t, lineOf(t, s, "line"), 1)
		require.NoError(t, holder.Release())
	})
}

// lineOf returns who stands in a line, as an outsider sees it.
func lineOf(t *testing.T, s *mem.Service, name string) []coord.Node {
	t.Helper()
	nodes, err := s.Client().Line(t.Context(), name)
	require.NoError(t, err)
	return nodes
}

// A server's context lives as long as the server: what is left in it is a leak.
func TestACallLeavesNothingInTheCallersContext(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ctx := &countingContext{Context: t.Context(), done: make(chan struct{})}
		c := s.Client()
		for range 100 {
			h, err := c.TryAcquire(ctx, "line", "lock", nil, exclusive)
			require.NoError(t, err)
			_, err = s.Client().TryAcquire(ctx, "line", "lock", nil, exclusive)
			assert.ErrorIs(t, err, coord.ErrBusy)
			_, err = s.Client().Acquire(ctx, "line", "lock", nil, exclusive, coord.MaxWait(time.Millisecond))
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			require.NoError(t, h.Release())
			h, err = c.Acquire(ctx, "line", "lock", nil, exclusive, coord.MaxWait(time.Hour))
			require.NoError(t, err)
			require.NoError(t, h.Release())
		}
		assert.Positive(t, ctx.asked.Load(), "nothing was counted")
		assert.Zero(t, ctx.children.Load(), "contexts that end only with the caller's")
	})
}

// countingContext counts the contexts that would end with it.
type countingContext struct {
	context.Context
	done            chan struct{}
	children, asked atomic.Int64
}

func (c *countingContext) Done() <-chan struct{} { return c.done }

func (c *countingContext) Err() error { return nil }

// AfterFunc is how package context asks a context that is not its own to end another one.
func (c *countingContext) AfterFunc(func()) (stop func() bool) {
	c.asked.Add(1)
	c.children.Add(1)
	return sync.OnceValue(func() bool {
		c.children.Add(-1)
		return true
	})
}
