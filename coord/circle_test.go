package coord_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/verify/bubble"
)

// from makes the nodes of a client those of another process.
func from(s *mem.Service, pid int, opts ...coord.Option) *coord.Client {
	m := &meddler{join: func(e driver.Entry, do joins) (driver.Place, []driver.Node, error) {
		e.Owner.PID = pid
		return do(e)
	}}
	return m.client(s, opts...)
}

func TestAWaitThatRunsOutInACircleSaysSo(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		ours, theirs := s.Client(), from(s, 7, coord.WithOwnerLabel("billing"))
		take := func(ctx context.Context, c *coord.Client, line string, opts ...coord.AcquireOption) (*coord.Hold, error) {
			return c.Acquire(ctx, line, "lock", nil, exclusive, opts...)
		}
		orders, err := take(t.Context(), ours, "orders")
		require.NoError(t, err)
		stock, err := take(t.Context(), theirs, "stock")
		require.NoError(t, err)

		_, err = take(t.Context(), ours, "stock", coord.MaxWait(time.Second))
		require.ErrorIs(t, err, coord.ErrBusy)
		var e *coord.Error
		require.ErrorAs(t, err, &e)
		assert.Empty(t, e.Circle, "they wait for nothing")

		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error)
		go func() {
			_, err := take(ctx, theirs, "orders")
			waited <- err
		}()
		began := time.Now()
		_, err = take(t.Context(), ours, "stock", coord.MaxWait(time.Second))
		assert.Less(t, time.Since(began), 2*time.Second)
		require.ErrorIs(t, err, coord.ErrBusy)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorAs(t, err, &e)
		assert.Equal(t, "orders", e.Circle)
		assert.Equal(t, stock.Node().ID, e.Blocker.ID)
		assert.Equal(t, stock.Token(), e.Blocker.Token)
		assert.Equal(t, 7, e.Blocker.Owner.PID)
		assert.ErrorContains(t, err, `each waits for the other, since this client has "orders"`)
		assert.ErrorContains(t, err, "billing")

		_, err = take(t.Context(), ours, "stock", coord.MaxWait(0))
		require.ErrorAs(t, err, &e)
		assert.Empty(t, e.Circle, "who does not wait closes no circle")
		cancel()
		assert.Error(t, <-waited)
		require.NoError(t, orders.Release())
		require.NoError(t, stock.Release())
	})
}
