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
